"""TLS at Envoy: who gets in, by which protocol, and with which certificate."""

import asyncio
import contextlib
import ssl

import grpc
import pytest
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from tests.deploy.certificates import write_certificates
from tests.deploy.envoy_process import BOUND_SECONDS
from tests.deploy.service import running_service
from tests.server.running_server import collect


async def generate(address, credentials):
    options = [("grpc.ssl_target_name_override", "localhost")]
    async with aio.secure_channel(address, credentials, options=options) as channel:
        stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
        request = pb.GenerateRequest(text="Once", stopping={"max_output_tokens": 3})
        return await collect(stub.Generate(request, timeout=BOUND_SECONDS))


async def handshake(address, context):
    """Return the protocol and the certificate that are agreed on."""
    host, port = address.split(":")
    _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname="localhost")
    tls = writer.get_extra_info("ssl_object")
    agreed = tls.selected_alpn_protocol(), tls.getpeercert(binary_form=True)
    writer.close()
    # A client that ends without reading may be told so.
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()
    return agreed


def trusting(authority, *protocols):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(protocols)
    return context


async def test_grpc_over_tls(tmp_path):
    """A stock gRPC client with the authority's certificate gets its answer."""
    authority = write_certificates(tmp_path / "certs")
    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    async with running_service(
        num_replicas=1, variant="tls", certificates=tmp_path / "certs"
    ) as service:
        assert (await generate(service.envoy.tls, credentials))[-1].usage.output_token_count == 3


@pytest.mark.parametrize(
    ("offered", "agreed"), [(("h2", "http/1.1"), "h2"), (("http/1.1",), "http/1.1")]
)
async def test_the_protocol_is_agreed_on_by_alpn(tmp_path, offered, agreed):
    """HTTP/2 for all that can, which gRPC insists on; HTTP/1.1 for the others."""
    authority = write_certificates(tmp_path / "certs")
    async with running_service(
        num_replicas=1, variant="tls", certificates=tmp_path / "certs"
    ) as service:
        protocol, _ = await handshake(service.envoy.tls, trusting(authority, *offered))
    assert protocol == agreed


async def test_old_protocols_are_refused(tmp_path):
    """TLS 1.1 is not spoken."""
    authority = write_certificates(tmp_path / "certs")
    context = trusting(authority, "h2")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    async with running_service(
        num_replicas=1, variant="tls", certificates=tmp_path / "certs"
    ) as service:
        with pytest.raises(ssl.SSLError, match=r"(?i)alert protocol version"):
            await handshake(service.envoy.tls, context)


async def test_a_new_certificate_is_taken_without_a_restart(tmp_path):
    """Files that are moved into the folder count for the next connection."""
    certs = tmp_path / "certs"
    old = write_certificates(certs)
    async with running_service(num_replicas=1, variant="tls", certificates=certs) as service:
        await handshake(service.envoy.tls, trusting(old, "h2"))
        new = write_certificates(tmp_path / "new")
        for name in ("tls.key", "tls.crt"):
            (tmp_path / "new" / name).rename(certs / name)
        async with asyncio.timeout(BOUND_SECONDS):
            while True:
                with contextlib.suppress(ssl.SSLCertVerificationError):
                    await handshake(service.envoy.tls, trusting(new, "h2"))
                    break
        with pytest.raises(ssl.SSLCertVerificationError):
            await handshake(service.envoy.tls, trusting(old, "h2"))


async def test_mtls_takes_those_who_are_signed(tmp_path):
    """With mtls.yaml a client without a certificate, or with another's, is not let in."""
    authority = write_certificates(tmp_path / "certs")
    stranger = write_certificates(tmp_path / "others").issue_cert("client")
    client = authority.issue_cert("client")

    def credentials(cert):
        if cert is None:
            return grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        chain = b"".join(pem.bytes() for pem in cert.cert_chain_pems)
        return grpc.ssl_channel_credentials(
            authority.cert_pem.bytes(), cert.private_key_pem.bytes(), chain
        )

    async with running_service(
        num_replicas=1, variant="mtls", certificates=tmp_path / "certs"
    ) as service:
        answer = await generate(service.envoy.tls, credentials(client))
        assert answer[-1].usage.output_token_count == 3
        for cert in (None, stranger):
            with pytest.raises(aio.AioRpcError) as raised:
                await generate(service.envoy.tls, credentials(cert))
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
