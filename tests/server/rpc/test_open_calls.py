"""Calls that need no key are bounded in number and time, and those of others go on."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace_server.rpc import boundary
from headrace_server.rpc.open_calls import OpenCalls
from tests.server.rpc import raw_http2 as raw
from tests.server.running_server import BOUND_SECONDS, failure, open_channel, running_server

CHECK = "/grpc.health.v1.Health/Check"
TOKENIZE = "/headrace.v1.InferenceService/Tokenize"
GENERATE = "/headrace.v1.InferenceService/Generate"
SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def four_calls(monkeypatch):
    monkeypatch.setattr(boundary, "OpenCalls", lambda: OpenCalls(max_calls=4))


async def watch(channel):
    """Begin a Watch, and see that it has begun."""
    call = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
    assert (await call.read()).status == SERVING
    return call


async def check(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    return (await stub.Check(health_pb2.HealthCheckRequest(), timeout=BOUND_SECONDS)).status


async def test_the_connection_with_the_most_calls_loses_its_oldest(four_calls):
    """Whoever holds many keeps nobody from holding one."""
    async with running_server("--api-key", "one") as under, open_channel(under.address) as other:
        few = await watch(other)
        many = [await watch(under.channel) for _ in range(5)]
        error = await failure(many[0])
        assert (error.code, error.message, error.retry_seconds) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "Too many calls without a key are open.",
            1.0,
        )
        error = await failure(many[1])
        assert error.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not any(call.done() for call in (few, *many[2:]))
        assert await check(other) == SERVING  # which takes a place, and gives it back
        assert (await failure(many[2])).code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await check(other) == SERVING
        for call in (few, *many[3:]):
            assert not call.done()
            call.cancel()


async def test_a_call_whose_request_never_comes_makes_way(four_calls):
    """It is counted from its headers on, and each of those that are over is told so."""
    async with running_server("--api-key", "one") as under, raw.connect(under.address) as client:
        for number in range(5):
            client.send_headers(2 * number + 1, CHECK)
        await client.flush()
        async with asyncio.timeout(BOUND_SECONDS):
            while True:
                frame = await client.receive()
                assert frame is not None
                if frame.kind == raw.HEADERS:
                    break
        assert frame.stream_id == 1
        assert await check(under.channel) == SERVING


@pytest.mark.parametrize(
    ("method", "limit"), [(CHECK, "OPEN_REQUEST_SECONDS"), (TOKENIZE, "_REQUEST_SECONDS")]
)
async def test_a_request_has_its_time(monkeypatch, method, limit):
    """Nobody holds a call whose request never comes for as long as a connection lives."""
    monkeypatch.setattr(boundary, limit, 0.05)
    async with running_server() as under:

        async def never():
            await asyncio.get_running_loop().create_future()
            yield b""

        async with open_channel(under.address) as channel:
            call = channel.stream_unary(method)(never(), timeout=BOUND_SECONDS)
            error = await failure(call)
            assert (error.code, error.message) == (
                grpc.StatusCode.DEADLINE_EXCEEDED,
                "The request did not arrive within 0.05 s.",
            )
        await under.all_returned()


@pytest.mark.parametrize("method", [CHECK, TOKENIZE, GENERATE])
async def test_a_call_without_a_request_is_invalid(method):
    """It ends before it has sent one; by itself gRPC would leave its caller without a status."""
    async with running_server() as under:

        async def nothing():
            return
            yield b""

        error = await failure(under.channel.stream_stream(method)(nothing(), timeout=BOUND_SECONDS))
        assert (error.code, error.message) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "The call has no request, or one over 4 MiB.",
        )
        await under.all_returned()
