"""Reflection in both versions, by its own messages and by grpcurl."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
import pytest_asyncio
from grpc_reflection.v1alpha import reflection_pb2

from tests.server.running_server import running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

SERVICES = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "headrace.v1.InferenceService",
    "headrace.v1.ModelService",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def under():
    async with running_server() as under:
        yield under


async def reflect(under, version, **request):
    """Ask one question; the messages of both versions are the same on the wire."""
    call = under.channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        reflection_pb2.ServerReflectionRequest.SerializeToString,
        reflection_pb2.ServerReflectionResponse.FromString,
    )()
    await call.write(reflection_pb2.ServerReflectionRequest(**request))
    await call.done_writing()
    return await call.read()


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_all_services_are_listed(under, version):
    """Both versions list every service, themselves included."""
    response = await reflect(under, version, list_services="")
    assert [found.name for found in response.list_services_response.service] == SERVICES


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.parametrize("symbol", [*SERVICES, "headrace.v1.InferenceService.Generate"])
async def test_every_listed_service_is_described(under, version, symbol):
    """Both versions find the file of each service, and of a method."""
    response = await reflect(under, version, file_containing_symbol=symbol)
    assert response.file_descriptor_response.file_descriptor_proto


@pytest.mark.parametrize("symbol", ["headrace.v1.Nothing", "headrace", "."])
async def test_what_is_not_there_is_not_found(under, symbol):
    """An unknown symbol is an answer in band, as the contract of reflection wants."""
    response = await reflect(under, "v1", file_containing_symbol=symbol)
    assert response.error_response.error_code == 5


async def grpcurl(*arguments):
    """Run grpcurl and return its status, stdout and stderr."""
    path = Path(sys.executable).with_name("grpcurl")
    process = await asyncio.create_subprocess_exec(
        path, "-plaintext", *arguments, stdout=-1, stderr=-1, stdin=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_grpcurl_lists_and_describes(under):
    """`grpcurl list` and `describe` show services, methods and messages."""
    assert await grpcurl(under.address, "list") == (0, "\n".join(SERVICES) + "\n", "")
    for symbol in ("headrace.v1.InferenceService.Generate", "headrace.v1.GenerateRequest"):
        status, out, _ = await grpcurl(under.address, "describe", symbol)
        assert (status, symbol in out) == (0, True)


@pytest.mark.parametrize(
    "body",
    [
        '{"text":"Once upon a time"}',
        '{"chat":{"messages":[{"role":"ROLE_USER","content":"Hi"}]}}',
    ],
)
async def test_grpcurl_generates(under, body):
    """The smallest call is one line, with text and with a chat."""
    method = "headrace.v1.InferenceService/Generate"
    status, out, err = await grpcurl("-d", body, under.address, method)
    assert (status, err) == (0, "")
    last = out[out.rfind("\n{") + 1 :]  # there may be no other
    assert json.loads(last)["usage"]["output_token_count"] > 0


async def test_grpcurl_shows_the_details_of_an_error(under):
    """The reason and the field of an error are readable without our protos."""
    body = '{"text":"a","sampling":{"temperature":-1}}'
    method = "headrace.v1.InferenceService/Generate"
    status, _, err = await grpcurl("-d", body, under.address, method)
    assert status == 64 + 3
    assert "INVALID_FIELD" in err
    assert "sampling.temperature" in err
