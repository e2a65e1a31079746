"""The engine dies or hangs: callers are told at once, health turns, and service resumes."""

import asyncio
import os
import signal
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace_server.engine.simulated_runner import FAULT_EXIT, FAULT_HANG
from tests.server.running_server import BOUND_SECONDS, collect, failure, first, running_server

Status = health_pb2.HealthCheckResponse
# 20 streams make 400 messages a second, which client and server manage in one loop on any machine:
# with more, the streams end before the test has asked for all of them.
STEP = ("--simulated-step-seconds", 0.05)
# By the end of its process, that is, and long before it could be missed for its silence.
AT_ONCE_SECONDS = 10.0


def watch_health(under):
    return health_pb2_grpc.HealthStub(under.channel).Watch(health_pb2.HealthCheckRequest())


async def next_status(watch):
    async with asyncio.timeout(BOUND_SECONDS):
        return (await watch.read()).status


async def test_a_killed_engine_ends_all_streams_at_once_and_comes_back():
    """Under 20 streams and 20 in the queue: UNAVAILABLE at once, and serving again."""
    flags = (*STEP, "--max-num-seqs", 20, "--simulated-load-seconds", 0.5)
    async with running_server(*flags) as under:
        watch = watch_health(under)
        assert await next_status(watch) == Status.SERVING
        # The others come when these run, for calls that come together may change places.
        calls = [under.generate() for _ in range(20)]
        for call in calls:
            await first(call)
        calls += [under.generate() for _ in range(20)]
        for call in calls[20:]:
            await call.initial_metadata()
        begin = time.monotonic()
        os.kill(under.backend.engine_pid, signal.SIGKILL)
        errors = [await failure(calls[0]), await failure(under.generate())]
        errors += await asyncio.gather(*(failure(call) for call in calls[1:]))
        told_seconds = time.monotonic() - begin
        assert told_seconds < AT_ONCE_SECONDS
        for error in errors:
            assert (error.code, error.reason) == (
                grpc.StatusCode.UNAVAILABLE,
                "ENGINE_UNAVAILABLE",
            )
            assert error.retry_seconds > 0
        assert await next_status(watch) == Status.NOT_SERVING
        assert await next_status(watch) == Status.SERVING
        print(f"told after {told_seconds * 1000:.0f} ms, back {time.monotonic() - begin:.2f} s")
        assert await collect(under.generate(stopping={"max_output_tokens": 3}))
        await under.all_returned()
        watch.cancel()


@pytest.mark.parametrize("fault", [FAULT_EXIT, FAULT_HANG])
async def test_a_request_that_kills_the_engine_does_not_end_the_service(fault):
    """An engine that exits or hangs is noticed, all its callers are told, and it is replaced."""
    flags = (*STEP, "--simulated-faults", "--engine-heartbeat-timeout", 1)
    async with running_server(*flags) as under:
        watch = watch_health(under)
        assert await next_status(watch) == Status.SERVING
        neighbour = under.generate()
        await first(neighbour)
        culprit = under.generate(token_ids={"ids": [65, fault]})
        for call in (culprit, neighbour):
            async with asyncio.timeout(BOUND_SECONDS):
                error = await failure(call)
            assert (error.code, error.reason) == (
                grpc.StatusCode.UNAVAILABLE,
                "ENGINE_UNAVAILABLE",
            )
        assert [await next_status(watch) for _ in range(2)] == [
            Status.NOT_SERVING,
            Status.SERVING,
        ]
        assert await collect(under.generate(stopping={"max_output_tokens": 3}))
        await under.all_returned()
        watch.cancel()


async def test_a_stopped_engine_is_replaced_while_idle():
    """Health does not say SERVING for an engine that gives no sign of life."""
    async with running_server("--engine-heartbeat-timeout", 1) as under:
        watch = watch_health(under)
        assert await next_status(watch) == Status.SERVING
        os.kill(under.backend.engine_pid, signal.SIGSTOP)
        assert [await next_status(watch) for _ in range(2)] == [
            Status.NOT_SERVING,
            Status.SERVING,
        ]
        assert await collect(under.generate(stopping={"max_output_tokens": 3}))
        watch.cancel()
