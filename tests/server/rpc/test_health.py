"""Health over a real channel: Check, List and Watch tell the truth."""

import asyncio

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace_server.config import ShutdownConfig
from tests.server.running_server import failure, running_server

NAMES = ["", "headrace.v1.InferenceService", "headrace.v1.ModelService"]
Status = health_pb2.HealthCheckResponse


def health(under):
    return health_pb2_grpc.HealthStub(under.channel)


async def check(under, name):
    return (await health(under).Check(health_pb2.HealthCheckRequest(service=name))).status


async def next_status(watch):
    async with asyncio.timeout(10):
        response = await watch.read()
    return None if response is aio.EOF else response.status


async def test_health_is_not_serving_until_the_model_is_loaded():
    """While the model loads every service is NOT_SERVING; a Watch sees the change to SERVING."""
    async with running_server("--simulated-load-seconds", 0.2, until_ready=False) as under:
        watch = health(under).Watch(health_pb2.HealthCheckRequest(service=NAMES[1]))
        assert await next_status(watch) == Status.NOT_SERVING
        assert [await check(under, name) for name in NAMES] == [Status.NOT_SERVING] * 3
        assert await next_status(watch) == Status.SERVING
        assert [await check(under, name) for name in NAMES] == [Status.SERVING] * 3
        statuses = (await health(under).List(health_pb2.HealthListRequest())).statuses
        assert {name: found.status for name, found in statuses.items()} == dict.fromkeys(
            NAMES, Status.SERVING
        )
        watch.cancel()


async def test_an_unknown_service_is_not_found_and_may_be_watched():
    """Check refuses a name that nobody has; Watch says so and stays, as its contract wants."""
    async with running_server() as under:
        error = await failure(health(under).Check(health_pb2.HealthCheckRequest(service="x.Y")))
        assert error.code is grpc.StatusCode.NOT_FOUND
        watch = health(under).Watch(health_pb2.HealthCheckRequest(service="x.Y"))
        assert await next_status(watch) == Status.SERVICE_UNKNOWN
        assert not watch.done()
        watch.cancel()


@pytest.mark.parametrize("name", [*NAMES, "x.Y"])
async def test_a_watch_ends_with_a_drain(name):
    """A Watch tells NOT_SERVING and ends with OK, so that it does not hold up the stop."""
    async with running_server() as under:
        watch = health(under).Watch(health_pb2.HealthCheckRequest(service=name))
        first = await next_status(watch)
        await under.server.drain(ShutdownConfig(lame_duck_seconds=0, timeout_seconds=1))
        assert await check(under, "") == Status.NOT_SERVING
        if name in NAMES:
            assert (first, await next_status(watch)) == (Status.SERVING, Status.NOT_SERVING)
        assert await next_status(watch) is None
        assert await watch.code() is grpc.StatusCode.OK
