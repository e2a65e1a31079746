"""TLS and client certificates over real channels, also while the files change."""

import asyncio
import logging
import ssl
import warnings
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from headrace_server.rpc.channel_options import ConnectionConfig
from tests.server.running_server import (
    BOUND_SECONDS,
    collect,
    failure,
    first,
    open_channel,
    running_server,
)


@dataclass(frozen=True)
class Files:
    """The files of a server."""

    certfile: Path
    keyfile: Path
    ca_certs: Path

    @property
    def flags(self):
        return ("--ssl-certfile", self.certfile, "--ssl-keyfile", self.keyfile)

    @property
    def mutual_flags(self):
        return (*self.flags, "--ssl-ca-certs", self.ca_certs)

    def install(self, certificate):
        """Put a certificate and its key there, each in one move."""
        for path, pem in [
            (self.certfile, b"".join(pem.bytes() for pem in certificate.cert_chain_pems)),
            (self.keyfile, certificate.private_key_pem.bytes()),
        ]:
            new = path.with_suffix(".new")
            new.write_bytes(pem)
            new.rename(path)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def files(tmp_path, authority):
    files = Files(tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "ca.pem")
    files.install(authority.issue_cert("127.0.0.1", "localhost"))
    authority.cert_pem.write_to_path(files.ca_certs)
    return files


def trusting(authority, certificate=None):
    """Credentials of a client that trusts an authority, and shows a certificate."""
    if certificate is None:
        return grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    chain = b"".join(pem.bytes() for pem in certificate.cert_chain_pems)
    return grpc.ssl_channel_credentials(
        authority.cert_pem.bytes(), certificate.private_key_pem.bytes(), chain
    )


async def tokenize(channel, metadata=None):
    """Return how many tokens a text has."""
    stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
    answer = await stub.Tokenize(
        pb.TokenizeRequest(text="ab"), metadata=metadata, timeout=BOUND_SECONDS
    )
    return answer.token_count


async def unreachable(channel):
    """Tell whether the server cannot be called over a channel at all."""
    stub = health_pb2_grpc.HealthStub(channel)
    call = stub.Check(health_pb2.HealthCheckRequest(), timeout=BOUND_SECONDS)
    return (await failure(call)).code is grpc.StatusCode.UNAVAILABLE


async def shown_certificate(address):
    """Look which certificate a new connection is shown."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown


def der(certificate):
    return ssl.PEM_cert_to_DER_cert(certificate.cert_chain_pems[0].bytes().decode())


async def test_a_client_that_trusts_the_authority_gets_answers(files, authority):
    """A stream and a call, over the port that has no plain text any more."""
    async with running_server(*files.flags, credentials=trusting(authority)) as under:
        assert await tokenize(under.channel) == 2
        call = under.generate()
        await first(call)
        call.cancel()
        async with open_channel(under.address) as plain:
            assert await unreachable(plain)


async def test_a_client_that_trusts_another_authority_does_not_talk(files):
    """Neither health nor anything else passes."""
    async with running_server(*files.flags, credentials=trusting(trustme.CA())) as under:
        assert await unreachable(under.channel)


async def test_a_certificate_of_another_host_is_not_taken(files, authority):
    """Unless the client knows that it is the right one."""
    files.install(authority.issue_cert("model.example"))
    credentials = trusting(authority)
    async with running_server(*files.flags, credentials=credentials) as under:
        assert await unreachable(under.channel)
        options = (("grpc.ssl_target_name_override", "model.example"),)
        async with open_channel(under.address, credentials, options) as channel:
            assert await tokenize(channel) == 2


async def test_old_versions_of_tls_are_not_spoken(files, authority):
    """1.2 and 1.3 are."""
    async with running_server(*files.flags) as under:
        versions = ssl.TLSVersion
        assert await is_spoken(under.address, versions.TLSv1_2)
        assert await is_spoken(under.address, versions.TLSv1_3)
        assert not await is_spoken(under.address, versions.TLSv1_1)


async def is_spoken(address, version):
    """Tell whether a handshake of one version succeeds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # the client would not speak 1.1 by itself
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = context.maximum_version = version
    host, _, port = address.rpartition(":")
    try:
        _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    except (ssl.SSLError, ConnectionError):
        return False
    writer.close()
    return True


async def test_a_client_that_never_shakes_hands_is_dropped(files):
    """Silent connections to the port would be kept for ever."""
    connection = ConnectionConfig(handshake_seconds=0.2)
    async with running_server(*files.flags, connection=connection) as under:
        host, _, port = under.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        async with asyncio.timeout(BOUND_SECONDS):
            assert await reader.read() == b""
        writer.close()


async def test_keys_are_asked_for_over_tls_too(files, authority):
    """A connection that nobody can read is no proof of who has made it."""
    async with running_server(
        *files.flags, "--api-key", "one", credentials=trusting(authority)
    ) as under:
        call = under.inference.Tokenize(pb.TokenizeRequest(text="a"))
        assert (await failure(call)).code is grpc.StatusCode.UNAUTHENTICATED
        assert await tokenize(under.channel, (("authorization", "Bearer one"),)) == 2


async def test_a_client_certificate_is_required_where_there_are_authorities(files, authority):
    """One that is signed by them opens the port; none, and one of strangers, does not."""
    client = authority.issue_cert("alice@x.example")
    async with running_server(
        *files.mutual_flags, credentials=trusting(authority, client)
    ) as under:
        assert await tokenize(under.channel) == 2
        async with open_channel(under.address, trusting(authority)) as without:
            assert await unreachable(without)
        stranger = trustme.CA().issue_cert("alice@x.example")
        async with open_channel(under.address, trusting(authority, stranger)) as strange:
            assert await unreachable(strange)


async def test_a_client_certificate_says_who_calls(files, authority, caplog):
    """By its subject, whatever the connection, and whoever is behind it; a key says it louder."""
    caplog.set_level(logging.INFO)
    alice = authority.issue_cert("a.example", common_name="alice", organization_name="Acme")
    behind, key = (("x-headrace-caller", "10.0.0.7"),), (("authorization", "Bearer one"),)

    async def callers(*metadatas, flags=()):
        caplog.clear()
        async with running_server(
            *files.mutual_flags, *flags, credentials=trusting(authority, alice)
        ) as under:
            for metadata in metadatas:
                await tokenize(under.channel, metadata)
        return [
            record.fields["caller"].partition(",OU=")[0]
            + ("/10.0.0.7" if record.fields["caller"].endswith("/10.0.0.7") else "")
            for record in caplog.records
            if record.message == "call"
        ]

    assert await callers(None, behind) == ["CN=alice", "CN=alice/10.0.0.7"]
    (name,) = await callers((*key, *behind), flags=("--api-key", "one"))
    assert name.startswith("key-")


async def test_two_connections_of_one_client_certificate_are_one_caller(files, authority):
    """A label that one of them uses is taken on the other."""
    alice = trusting(authority, authority.issue_cert("a.example", common_name="alice"))
    bob = trusting(authority, authority.issue_cert("b.example", common_name="bob"))
    request = pb.GenerateRequest(text="a", request_id="x", stopping={"max_output_tokens": 1})
    async with running_server(*files.mutual_flags, credentials=alice) as under:
        running = under.generate(request_id="x")
        await first(running)
        async with open_channel(under.address, alice) as channel:
            call = inference_service_pb2_grpc.InferenceServiceStub(channel).Generate(request)
            assert (await failure(call)).code is grpc.StatusCode.ALREADY_EXISTS
        async with open_channel(under.address, bob) as channel:
            call = inference_service_pb2_grpc.InferenceServiceStub(channel).Generate(request)
            assert await collect(call)
        running.cancel()
        await under.all_returned()


async def test_a_new_certificate_is_shown_to_new_connections_alone(files, authority):
    """A stream that runs goes on, its channel serves on, and nobody starts anything again."""
    old, new = (authority.issue_cert("127.0.0.1") for _ in range(2))
    files.install(old)
    async with running_server(*files.flags, credentials=trusting(authority)) as under:
        running = under.generate()
        await first(running)
        assert await shown_certificate(under.address) == der(old)
        files.install(new)
        assert await shown_certificate(under.address) == der(new)
        assert await running.read()
        assert await tokenize(under.channel) == 2
        async with open_channel(under.address, trusting(authority)) as channel:
            assert await tokenize(channel) == 2
        running.cancel()
        await under.all_returned()


async def test_a_bad_certificate_leaves_the_old_one_in_use(files, authority, caplog):
    """Half of a renewal is told in the log, once; the other half mends it."""
    old, new = (authority.issue_cert("127.0.0.1") for _ in range(2))
    files.install(old)
    async with running_server(*files.flags, credentials=trusting(authority)) as under:
        files.certfile.write_bytes(new.cert_chain_pems[0].bytes())
        for _ in range(2):
            assert await shown_certificate(under.address) == der(old)
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        assert [error.message for error in errors] == ["bad certificate, the old one stays in use"]
        assert errors[0].fields["cause"] == (
            f"{files.keyfile} is not the private key of the certificate in {files.certfile}."
        )
        files.keyfile.unlink()
        assert await shown_certificate(under.address) == der(old)
        assert await tokenize(under.channel) == 2
        files.install(new)
        assert await shown_certificate(under.address) == der(new)


async def test_the_authorities_of_clients_can_be_replaced_while_it_runs(files, authority):
    """Clients of the new one are let in from then on, those of the old one are not."""
    other = trustme.CA()
    old = trusting(authority, authority.issue_cert("old.example"))
    new = trusting(authority, other.issue_cert("new.example"))
    async with running_server(*files.mutual_flags, credentials=old) as under:
        assert await tokenize(under.channel) == 2
        async with open_channel(under.address, new) as channel:
            assert await unreachable(channel)
        files.ca_certs.write_bytes(other.cert_pem.bytes())
        async with open_channel(under.address, new) as channel:
            assert await tokenize(channel) == 2
        async with open_channel(under.address, old) as channel:
            assert await unreachable(channel)
        assert await tokenize(under.channel) == 2
