"""A signal ends the server after its streams, in a process of its own."""

import asyncio
import contextlib
import signal
import time

import grpc
import psutil
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2_grpc

from tests.server.running_server import Failure, collect, eventually, failure, first
from tests.server.server_process import server_process

STEP = ("--simulated-step-seconds", "0.01")
STOPPING = {"max_output_tokens": 80, "ignore_end_of_text": True}
# Longer than any test waits for the end, so that none ends by it.
NEVER = ("--shutdown-timeout", 300)


async def begin_drain(server, number=signal.SIGTERM):
    """Send the signal and wait until the server tells that it is about to stop.

    The signal comes twice, as from GNU timeout, which sends it to the process and to its group.
    """
    health = health_pb2_grpc.HealthStub(server.channel).Watch(health_pb2.HealthCheckRequest())
    assert (await health.read()).status == health_pb2.HealthCheckResponse.SERVING
    for _ in range(2):
        server.process.send_signal(number)
    assert (await health.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
    return health


async def send_until_it_ends(process, number):
    """Send a signal again and again, since one that comes too early is no second one."""
    while process.returncode is None:
        process.send_signal(number)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 0.1)


def has_ended(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_all_streams_complete_and_new_calls_are_refused(number):
    """20 streams, half of them in the queue, end whole; new calls are told; the exit is clean."""
    async with server_process(*STEP, *NEVER, "--max-num-seqs", 10) as server:
        reflection = reflection_pb2_grpc.ServerReflectionStub(server.channel)
        open_for_ever = reflection.ServerReflectionInfo()
        calls = [server.generate(stopping=STOPPING, output={"token_ids": True}) for _ in range(20)]
        for call in calls:
            await call.initial_metadata()
        health = await begin_drain(server, number)
        assert await health.read() is aio.EOF
        error = await failure(server.generate())
        assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert error.retry_seconds > 0
        answers = await asyncio.gather(*(collect(call) for call in calls))
        assert await server.status() == 0
        for call, answer in zip(calls, answers, strict=True):
            assert await call.code() is grpc.StatusCode.OK
            assert sum(len(d.token_ids) for r in answer for d in r.deltas) == 80
            assert answer[-1].usage.output_token_count == 80
        open_for_ever.cancel()


async def test_streams_past_the_timeout_are_told_so():
    """After --shutdown-timeout the rest ends with UNAVAILABLE, and the exit is still clean."""
    async with server_process(*STEP, "--shutdown-timeout", 0.3) as server:
        calls = [server.generate(stopping={"ignore_end_of_text": True}) for _ in range(20)]
        for call in calls:
            await first(call)
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for error in await asyncio.gather(*(failure(call) for call in calls)):
            assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert await server.status() == 0
        assert time.monotonic() - begin >= 0.3


async def test_a_second_signal_ends_at_once():
    """Nobody has to wait for the streams who does not want to; the engine ends too."""
    async with server_process(*STEP, *NEVER) as server:
        engines = psutil.Process(server.process.pid).children(recursive=True)
        assert engines
        call = server.generate(stopping={"ignore_end_of_text": True})
        await first(call)
        await begin_drain(server)
        await send_until_it_ends(server.process, signal.SIGTERM)
        assert await server.status() == -signal.SIGTERM
        assert (await failure(call)).code is grpc.StatusCode.UNAVAILABLE
        await eventually(lambda: all(map(has_ended, engines)))


async def test_a_lame_duck_tells_callers_for_its_time():
    """With --lame-duck an idle server goes on refusing calls until load balancers know."""
    async with server_process("--lame-duck", 1.5) as server:
        begin = time.monotonic()
        await begin_drain(server)
        for _ in range(3):
            error = await failure(server.generate())
            assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert await server.status() == 0
        assert time.monotonic() - begin >= 1.5


async def test_an_idle_server_ends_at_once():
    """Without streams there is nothing to wait for."""
    async with server_process(*NEVER) as server:
        server.process.send_signal(signal.SIGTERM)
        assert await server.status() == 0


async def test_a_server_that_is_loading_ends_at_once():
    """A signal during loading is obeyed, and calls meanwhile are told the phase."""
    flags = ("--simulated-load-seconds", 600, *NEVER)
    async with server_process(*flags, until_ready=False) as server:
        error = await failure(server.generate())
        assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "ENGINE_UNAVAILABLE")
        server.process.send_signal(signal.SIGTERM)
        assert await server.status() == 0


async def test_the_engine_does_not_outlive_a_killed_server():
    """Kill -9 of the server ends its streams and its engine."""
    async with server_process(*STEP) as server:
        engines = psutil.Process(server.process.pid).children(recursive=True)
        call = server.generate(stopping={"ignore_end_of_text": True})
        await first(call)
        server.process.kill()
        error = await failure(call)
        assert isinstance(error, Failure)
        assert error.code is grpc.StatusCode.UNAVAILABLE
        await eventually(lambda: all(map(has_ended, engines)))
