"""Encrypted connections: what a client trusts, what it shows, and what it says where it fails."""

import inspect
import re
import socket
import ssl
import threading

import grpc
import pytest
from cryptography.hazmat.primitives import serialization as form

import headrace
from headrace import AsyncClient, Client, Tls
from headrace.channel import Address
from headrace.connection import Connection
from headrace.no_connection import why_no_connection
from tests.client.scripted_server import running_server
from tests.gateway.authorities import Authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def certificate(authority):
    """Of a server of this machine."""
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture(scope="module")
def alice(authority):
    """The certificate of a client."""
    return authority.issue("alice.example")


def credentials(pair, clients=None):
    """Those of a server, which wants a certificate of `clients` where they are given."""
    roots = None if clients is None else clients.file.read_bytes()
    pairs = [(pair.keyfile.read_bytes(), pair.certfile.read_bytes())]
    return grpc.ssl_server_credentials(pairs, roots, clients is not None)


@pytest.fixture(scope="module")
def target(certificate):
    """A server with TLS."""
    with running_server(credentials=credentials(certificate)) as server:
        yield server.target


@pytest.fixture(scope="module")
def mutual_target(certificate, authority):
    """A server that wants a certificate of its client, too."""
    with running_server(credentials=credentials(certificate, authority)) as server:
        yield server.target


def failure(target, tls, host="127.0.0.1"):
    """The sentence that a client says, without the address."""
    address = f"{host}:{target.rpartition(':')[2]}"
    with (
        Client(address, tls=tls, max_attempts=1) as client,
        pytest.raises(headrace.UnavailableError) as caught,
    ):
        client.get_model(timeout=20.0)
    assert address in caught.value.message
    return caught.value.message.replace(address, "SERVER")


@pytest.mark.parametrize("client_class", [Client, AsyncClient])
async def test_a_trusted_server_answers(target, authority, client_class):
    """With the certificate of the authority a client gets answers by TLS."""
    client = client_class(target, tls=Tls(ca_certs=authority.file))
    text = client.generate("Hi")
    assert (await text if inspect.isawaitable(text) else text).text == "Hello 🌍"
    closing = client.close()
    if closing is not None:
        await closing


def test_a_certificate_can_be_trusted_itself(target, certificate):
    """Without its authority the certificate of the server is as good."""
    with Client(target, tls=Tls(ca_certs=certificate.certfile)) as client:
        assert client.check_health()


def test_a_client_shows_its_certificate(mutual_target, authority, alice):
    """A server that wants a certificate of its client answers one that shows it."""
    tls = Tls(authority.file, certfile=str(alice.certfile), keyfile=str(alice.keyfile))
    with Client(mutual_target, tls=tls) as client:
        assert client.generate("Hi").text == "Hello 🌍"


def test_a_server_may_have_another_name(authority):
    """server_name is the name that is looked for in the certificate."""
    with running_server(credentials=credentials(authority.issue("models.example"))) as server:
        tls = Tls(authority.file, server_name="models.example")
        with Client(server.target, tls=tls) as client:
            assert client.check_health()
        assert failure(server.target, Tls(authority.file)) == (
            "The certificate of SERVER is for another name. Connect by a name that it has, or "
            "give such a name as server_name of headrace.Tls."
        )


def test_what_the_system_trusts_is_trusted(target, authority, stranger, monkeypatch):
    """tls=True trusts what OpenSSL does on this machine, and nothing else."""
    monkeypatch.delenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with Client(target, tls=True) as client:
        assert client.check_health()
    monkeypatch.setenv("SSL_CERT_FILE", str(stranger.file))
    assert "is not trusted (unable to get local issuer certificate)" in failure(target, True)


def test_an_unknown_authority_is_told(target, stranger):
    """A certificate of an authority that is not known says how to know it."""
    assert failure(target, Tls(stranger.file)) == (
        "The certificate of SERVER is not trusted (unable to get local issuer certificate). Give "
        "the certificate of its authority, or itself, as ca_certs of headrace.Tls (--ca-certs on "
        "the command line)."
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_plain_text_to_a_port_with_tls_is_told(target, host):
    """A client without TLS learns that the port has it."""
    assert failure(target, None, host) == (
        "SERVER broke off the connection at once, as a port with TLS does. Give tls (--tls or "
        "--ca-certs on the command line)."
    )


def test_tls_to_a_port_with_plain_text_is_told(server, authority):
    """A client with TLS learns that the port has none."""
    assert failure(server.target, Tls(authority.file)) == (
        "SERVER does not speak TLS. Connect without it, or give the port that has it."
    )


def test_a_missing_certificate_of_the_client_is_told(mutual_target, authority, stranger):
    """A client learns that it is to show a certificate, or another one."""
    assert failure(mutual_target, Tls(authority.file)) == (
        "SERVER broke off the connection at once, as a server does that wants a certificate of "
        "its client. Give certfile and keyfile of headrace.Tls (--certfile and --keyfile on the "
        "command line)."
    )
    mallory = stranger.issue("mallory.example")
    assert failure(mutual_target, Tls(authority.file, mallory.certfile, mallory.keyfile)) == (
        "SERVER broke off the connection at once, as a server does that does not trust the "
        "certificate of its client. Give one of an authority that it trusts."
    )


def test_the_https_port_is_told_from_the_grpc_port(certificate, authority):
    """A client that was given a port of HTTPS is told so."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certfile, certificate.keyfile)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=shake_hands, args=(listener, context))
        serving.start()
        target = "{}:{}".format(*listener.getsockname())
        assert failure(target, Tls(authority.file)) == (
            "SERVER speaks TLS but not gRPC. Give the gRPC port, which is 1920 by default, not "
            "the HTTP port."
        )
        listener.shutdown(socket.SHUT_RDWR)
        serving.join()


def shake_hands(listener, context):
    """Accept TLS without a word about protocols, until the listener is shut down."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, context.wrap_socket(connection, True) as encrypted:
            encrypted.recv(1)


def test_an_expired_certificate_is_the_servers_affair():
    """What no setting of the client can mend is told as such."""
    text = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:1920: Tls "
        "handshake failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: error:1000007d:SSL "
        "routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired: OK"
    )
    assert why_no_connection(text, Address("models:1920", has_tls=True)) == (
        "The certificate of models:1920 is not valid (certificate has expired). The server needs "
        "another one."
    )


@pytest.mark.parametrize("names", [("certfile",), ("keyfile",)])
def test_certificate_and_key_belong_together(names):
    """One without the other would have no effect, and is refused."""
    with pytest.raises(ValueError, match="certfile and keyfile belong together: give both"):
        Tls(**dict.fromkeys(names, "x.pem"))


@pytest.fixture
def odd(tmp_path):
    file = tmp_path / "odd.pem"
    file.write_text("no PEM\n")
    return file


@pytest.mark.parametrize("client_class", [Client, AsyncClient])
def test_a_file_that_cannot_be_used_is_told_at_once(client_class, authority, alice, odd, tmp_path):
    """The error names the file and what is wrong with it before there is a connection."""
    missing = tmp_path / "missing.pem"
    other = authority.issue("bob.example")
    for tls, words in (
        (Tls(missing), f"ca_certs: cannot read '{missing}': No such file or directory"),
        (Tls(odd), f"ca_certs: '{odd}' holds no certificate in PEM"),
        (Tls(certfile=missing, keyfile=odd), f"certfile: cannot read '{missing}': No such file"),
        (Tls(certfile=alice.certfile, keyfile=missing), f"keyfile: cannot read '{missing}': No"),
        (Tls(certfile=alice.certfile, keyfile=odd), f"keyfile: '{odd}' holds no key in PEM"),
        (Tls(certfile=alice.certfile, keyfile=other.keyfile), "that belongs to the certificate in"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            client_class("localhost", tls=tls)


def test_a_key_with_a_password_is_refused(alice, tmp_path):
    """Nobody is asked for a password at the terminal."""
    key = form.load_pem_private_key(alice.keyfile.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"secret")
        )
    )
    with pytest.raises(ValueError, match=r"locked.key' has a password; give a key without one"):
        Client("localhost", tls=Tls(certfile=alice.certfile, keyfile=locked))


def test_false_is_no_tls():
    """tls=False is as good as None."""
    connection = Connection.to("localhost", api_key=None, tls=False, max_attempts=1)
    assert connection.credentials is None
    assert connection.address == Address("localhost:1920")
