"""HTTPS of the gateway, and the ways by which it reaches its server, as processes of their own."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager

import anthropic
import httpx2 as httpx
import openai
import pytest

from tests.gateway.authorities import Authority
from tests.gateway.service import MODEL, Process, running

BOUND_SECONDS = 30.0
LOCAL = ("localhost", "127.0.0.1")
MESSAGES = [{"role": "user", "content": "Hey"}]
KEYS = ("--api-key", "secret", "--api-key", "other")
NAME = "key-2bb80d53"  # after the SHA-256 of "secret"
SIMULATED = ("--backend", "simulated")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secured(tmp_path_factory, authority):
    """A service with keys and encryption on both fronts, whose parts show certificates."""
    directory = tmp_path_factory.mktemp("secured")
    local, gateway = authority.issue(*LOCAL), authority.issue("gateway.example")
    trust = str(authority.file)
    server_flags = (*SIMULATED, *local.flags(), "--ssl-ca-certs", trust, *KEYS)
    with running(directory, "headrace_server", *server_flags) as server:
        address = server.wait_for_event("ready")["address"]
        flags = (*local.flags(), *KEYS, "--upstream", address, *gateway.flags("--upstream-ssl"))
        with running(
            directory, "headrace_gateway", *flags, "--upstream-ssl-ca-certs", trust
        ) as gateway:
            listening = gateway.wait_for_event("listening")
            assert listening["url"] == f"https://{listening['address']}"
            assert listening["page"] == f"{listening['url']}/"
            yield Secured(server, gateway, listening["url"])


class Secured:
    def __init__(self, server: Process, gateway: Process, url: str) -> None:
        self.server, self.gateway, self.url = server, gateway, url
        self.port = int(url.rpartition(":")[2])


@contextmanager
def openai_client(secured, context, key="secret"):
    with (
        httpx.Client(verify=context) as http_client,
        openai.OpenAI(
            base_url=f"{secured.url}/v1", api_key=key, max_retries=0, http_client=http_client
        ) as client,
    ):
        yield client


def test_openais_library(secured, authority):
    """Whole answers and streams come through, by a key that both fronts ask for."""
    with openai_client(secured, authority.client_context()) as client:
        asked = {"model": MODEL, "messages": MESSAGES, "max_tokens": 5, "seed": 1}
        whole = client.chat.completions.create(**asked).choices[0].message.content
        stream = client.chat.completions.create(**asked, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == whole != ""
        assert MODEL in [model.id for model in client.models.list()]
    for process, event in ((secured.gateway, "request"), (secured.server, "call")):
        lines = [line for line in process.log_lines() if line["event"] == event]
        assert NAME in {line.get("caller") for line in lines}, (event, lines)


def test_anthropics_library(secured, authority):
    """It sends its key in a header of its own."""
    with (
        httpx.Client(verify=authority.client_context()) as http_client,
        anthropic.Anthropic(
            base_url=secured.url, api_key="other", max_retries=0, http_client=http_client
        ) as client,
    ):
        message = client.messages.create(model=MODEL, messages=MESSAGES, max_tokens=5)
        assert message.usage.output_tokens == 5
        with pytest.raises(anthropic.AuthenticationError):
            client.with_options(api_key="wrong").models.list()


def test_openais_library_trusts_what_its_environment_says(secured, authority):
    """It needs no other program than one for a public authority."""
    program = "import openai; print(openai.OpenAI(max_retries=0).models.list().data[0].id)"
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "secret",
        "OPENAI_BASE_URL": f"{secured.url}/v1",
        "SSL_CERT_FILE": str(authority.file),
    }
    command = [sys.executable, "-c", program]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=BOUND_SECONDS, check=True
    )
    assert result.stdout == f"{MODEL}\n"


def test_a_wrong_key_and_a_wrong_authority(secured, authority, tmp_path):
    """The one is an error of authentication, the other one of the connection."""
    with (
        openai_client(secured, authority.client_context(), key="wrong") as client,
        pytest.raises(openai.AuthenticationError) as refusal,
    ):
        client.models.list()
    assert refusal.value.code == "invalid_api_key"
    stranger = Authority(tmp_path / "stranger").client_context()
    with openai_client(secured, stranger) as client, pytest.raises(openai.APIConnectionError):
        client.models.list()


def test_a_connection_is_kept(secured, authority):
    """Several requests go over one, by HTTP/1.1 in TLS 1.2 or 1.3."""
    context = authority.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    connection = http.client.HTTPSConnection(
        "localhost", secured.port, context=context, timeout=BOUND_SECONDS
    )
    connection.connect()
    first = connection.sock
    assert first.selected_alpn_protocol() == "http/1.1"
    assert first.version() == "TLSv1.3"
    for _ in range(3):
        connection.request("GET", "/v1/models", headers={"X-Api-Key": "secret"})
        assert json.load(connection.getresponse())["object"] == "list"
        assert connection.sock is first
    connection.close()


@pytest.mark.parametrize("data", [b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 4096, b""])
def test_what_is_no_tls_does_no_harm(secured, authority, data):
    """Its connection is closed; others are answered, and the log has no traceback."""
    with socket.create_connection(("127.0.0.1", secured.port), BOUND_SECONDS) as plain:
        plain.sendall(data)
        if not data:
            plain.shutdown(socket.SHUT_WR)
        assert not plain.recv(4096).startswith(b"HTTP/")
    assert httpx.get(f"{secured.url}/livez", verify=authority.client_context()).status_code == 200
    assert "Traceback" not in secured.gateway.log.read_text()


def serial_of(port, context):
    with (
        socket.create_connection(("127.0.0.1", port), BOUND_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as encrypted,
    ):
        return encrypted.getpeercert()["serialNumber"]


def wait_until(condition):
    deadline = time.monotonic() + BOUND_SECONDS
    while not condition():
        assert time.monotonic() < deadline


def replace(pair, other):
    """Put other files in place, as those do who renew certificates."""
    other.keyfile.replace(pair.keyfile)
    other.certfile.replace(pair.certfile)


def test_a_certificate_is_replaced(tmp_path):
    """New connections get the new one, old ones go on; a bad file changes nothing."""
    authority, next_directory = Authority(tmp_path / "a"), tmp_path / "next"
    pair, context = authority.issue(*LOCAL), authority.client_context()
    with running(tmp_path, "headrace_gateway", *pair.flags()) as gateway:
        port = int(gateway.wait_for_event("listening")["address"].rpartition(":")[2])
        kept = http.client.HTTPSConnection(
            "localhost", port, context=context, timeout=BOUND_SECONDS
        )
        kept.request("GET", "/livez")
        assert kept.getresponse().read() == b'{"status":"ok"}'
        first = serial_of(port, context)
        good = pair.certfile.read_bytes()
        pair.certfile.write_bytes(b"no certificate")
        wait_until(lambda: serial_of(port, context) == first and told(gateway, "bad certificate"))
        pair.certfile.write_bytes(good)
        successor = Authority(next_directory)
        replace(pair, successor.issue(*LOCAL))
        both = authority.client_context()
        both.load_verify_locations(successor.file)
        wait_until(lambda: serial_of(port, both) != first)
        with pytest.raises(ssl.SSLCertVerificationError):
            serial_of(port, context)
        kept.request("GET", "/livez")
        assert kept.getresponse().read() == b'{"status":"ok"}'
        kept.close()
        assert "Traceback" not in gateway.log.read_text()


def told(process, event):
    return [line for line in process.log_lines() if line["event"].startswith(event)]


def livez(port, context):
    """Return the status of an answer, or the name of what went wrong."""
    try:
        return httpx.get(f"https://localhost:{port}/livez", verify=context).status_code
    except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
        return "refused"


def test_clients_show_certificates(tmp_path):
    """Only those are let in that the authority has signed that is trusted now."""
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    pair, trusted = authority.issue(*LOCAL), tmp_path / "trusted.pem"
    trusted.write_bytes(authority.file.read_bytes())
    known = authority.client_context(authority.issue("known"))
    stranger = authority.client_context(other.issue("stranger"))
    old = authority.client_context(authority.issue("old"))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    flags = (*pair.flags(), "--ssl-ca-certs", str(trusted))
    with running(tmp_path, "headrace_gateway", *flags) as gateway:
        port = int(gateway.wait_for_event("listening")["address"].rpartition(":")[2])
        assert livez(port, known) == 200
        for context in (stranger, authority.client_context(), old):
            assert livez(port, context) == "refused"
        trusted.write_bytes(other.file.read_bytes())
        wait_until(lambda: livez(port, stranger) == 200)
        assert livez(port, known) == "refused"
        assert "Traceback" not in gateway.log.read_text()


@pytest.fixture
def ready(tmp_path):
    """Tell whether a gateway with flags finds its server; runs it for the time of the test."""

    @contextmanager
    def start(*flags):
        with running(tmp_path, "headrace_gateway", *flags) as gateway:
            url = gateway.wait_for_event("listening")["url"]
            yield lambda: httpx.get(f"{url}/readyz", timeout=BOUND_SECONDS)

    return start


def test_the_server_is_reached_by_a_socket(tmp_path, ready):
    """Keys are asked for there, too."""
    path = tmp_path / "headrace.sock"
    flags = (*SIMULATED, "--unix-socket", str(path), "--api-key", "secret")
    with running(tmp_path, "headrace_server", *flags) as server:
        server.wait_for_event("ready")
        with ready("--upstream", f"unix:{path}") as ask:
            assert ask().status_code == 200
            url = str(ask().url).removesuffix("/readyz")
            for key, status in (("secret", 200), ("wrong", 401)):
                headers = {"Authorization": f"Bearer {key}"}
                assert httpx.get(f"{url}/v1/models", headers=headers).status_code == status


def test_the_server_is_known_by_its_certificate(tmp_path, ready):
    """By that of another authority or another name it is not; it may have a name of its own."""
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    pair = authority.issue("headrace.example")
    with running(tmp_path, "headrace_server", *SIMULATED, *pair.flags()) as server:
        upstream = ("--upstream", server.wait_for_event("ready")["address"])
        trust = ("--upstream-ssl-ca-certs", str(authority.file))
        name = ("--upstream-ssl-server-name", "headrace.example")
        with ready(*upstream, *trust, *name) as ask:
            assert ask().status_code == 200
        for flags in (
            trust,
            ("--upstream-ssl-ca-certs", str(other.file), *name),
            ("--upstream-ssl-ca-certs", "system", *name),
            (),
        ):
            with ready(*upstream, *flags) as ask:
                answer = ask()
                assert answer.status_code == 503
                assert answer.json()["error"]["message"] == (
                    "The inference server cannot be reached."
                )


def test_the_server_may_ask_for_a_certificate(tmp_path, ready):
    """Without one the gateway is not let in."""
    authority = Authority(tmp_path / "a")
    pair = authority.issue(*LOCAL)
    flags = (*SIMULATED, *pair.flags(), "--ssl-ca-certs", str(authority.file))
    with running(tmp_path, "headrace_server", *flags) as server:
        upstream = ("--upstream", server.wait_for_event("ready")["address"])
        trust = ("--upstream-ssl-ca-certs", str(authority.file))
        own = authority.issue("gateway.example").flags("--upstream-ssl")
        for shown, status in (((), 503), (own, 200)):
            with ready(*upstream, *trust, *shown) as ask:
                assert ask().status_code == status


@pytest.mark.parametrize(
    ("prefix", "spoil", "words"),
    [
        ("--ssl", "certificate", "a.pem must hold a certificate in PEM, and "),
        ("--ssl", "key", "a.pem must hold a certificate in PEM, and "),
        ("--ssl", "pair", "a.key is not the private key of the certificate in "),
        ("--ssl", "lock", "The private key is encrypted, and nobody is there to type its"),
        ("--ssl", "authority", "authority.pem must hold certificates in PEM."),
        ("--upstream-ssl", "certificate", "a.pem must hold a certificate in PEM, and "),
        ("--upstream-ssl", "pair", "a.key is not the private key of the certificate in "),
        ("--upstream-ssl", "authority", "authority.pem must hold certificates in PEM."),
    ],
)
def test_files_that_do_not_work_stop_the_start(tmp_path, prefix, spoil, words):
    """One sentence names them, and nothing is asked at the terminal."""
    authority = Authority(tmp_path / "a")
    pair = authority.issue("a")
    match spoil:
        case "certificate":
            pair.certfile.write_text("no certificate")
        case "key":
            pair.keyfile.write_bytes(pair.certfile.read_bytes())
        case "pair":
            authority.issue("b").keyfile.replace(pair.keyfile)
        case "lock":
            command = ["openssl", "pkey", "-aes128", "-passout", "pass:x", "-in", pair.keyfile]
            locked = subprocess.run(command, check=True, capture_output=True).stdout
            pair.keyfile.write_bytes(locked)
        case "authority":
            authority.file.write_text("none")
    command = [sys.executable, "-m", "headrace_gateway", "--port", "0", *pair.flags(prefix)]
    command += [f"{prefix}-ca-certs", authority.file]
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_SECONDS,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("headrace-gateway: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_bad_file_of_keys_stops_the_start(tmp_path):
    """One sentence names the line, and no key."""
    file = tmp_path / "keys"
    file.write_text("alice secret\nbob\n")
    command = [sys.executable, "-m", "headrace_gateway", "--api-key-file", file]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=BOUND_SECONDS, check=False
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"headrace-gateway: {file}, line 2: there must be a name and a key, such as: alice KEY.\n"
    )
