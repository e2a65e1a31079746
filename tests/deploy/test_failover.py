"""Replicas die, stop and come back while others answer."""

import asyncio
import contextlib
import signal
import time

import grpc

from tests.deploy.envoy_process import BOUND_SECONDS
from tests.deploy.service import ENDLESS, running_service
from tests.server.running_server import Failure, eventually, failure, first
from tests.server.server_process import server_process

STEP = ("--simulated-step-seconds", 0.01)
# Two seconds of steps: what is to happen happens well before their end.
STOPPING = {"max_output_tokens": 200, "ignore_end_of_text": True}
SHORT = {"max_output_tokens": 3, "ignore_end_of_text": True}
NUM_STREAMS = 16
# What a route of Envoy has when it is not told otherwise.
DEFAULT_ROUTE_TIMEOUT_SECONDS = 15


async def outcome(call):
    """Read a call to its end: the number of tokens, or the failure."""
    last = None
    with contextlib.suppress(grpc.aio.AioRpcError):
        while (response := await call.read()) is not grpc.aio.EOF:
            last = response
    if await call.code() is not grpc.StatusCode.OK:
        return Failure.of(await call.code(), await call.details(), await call.trailing_metadata())
    return last.usage.output_token_count


async def begin(service, number=NUM_STREAMS):
    """Start streams, and return them when each has its first token."""
    calls = [service.generate(stopping=STOPPING) for _ in range(number)]
    await asyncio.gather(*(first(call) for call in calls))
    return calls


async def test_a_killed_replica_takes_only_its_own_streams():
    """Kill -9 under 16 streams: the other's end whole, and no new call fails."""
    async with running_service(*STEP) as service:
        calls = await begin(service)
        victim = service.replicas[0]
        victim.process.kill()
        # Before Envoy knows: each of these is sent again where it met the dead one.
        new = [service.generate(stopping=SHORT) for _ in range(NUM_STREAMS)]
        assert await asyncio.gather(*map(outcome, new)) == [3] * NUM_STREAMS
        outcomes = await asyncio.gather(*map(outcome, calls))
        for call, result in zip(calls, outcomes, strict=True):
            if await service.replica_of(call) is victim:
                # What clients see of a stream that breaks, in every language.
                assert result.code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE)
            else:
                assert result == 200
        assert 0 < outcomes.count(200) < NUM_STREAMS
        await service.envoy.wait_for_healthy(1)


async def test_calls_before_their_first_byte_survive_a_killed_replica():
    """A call that has no headers yet goes to another replica, and the caller sees nothing of it."""
    async with running_service(*STEP) as service:
        victim = service.replicas[0]
        # A stopped process takes calls and answers none, until it is killed.
        victim.process.send_signal(signal.SIGSTOP)
        calls = [service.generate(stopping=SHORT) for _ in range(NUM_STREAMS)]
        prefix = "cluster.headrace.upstream_rq_active"
        await service.envoy.wait_for_stat(prefix, lambda value: value > 0)
        victim.process.kill()
        assert await asyncio.gather(*map(outcome, calls)) == [3] * NUM_STREAMS
        assert await service.envoy.stat("cluster.headrace.upstream_rq_retry_success") > 0


async def test_a_replica_that_stops_loses_nothing():
    """SIGTERM under 16 streams and steady new calls: everything ends whole."""
    flags = (*STEP, "--lame-duck", 2)
    async with running_service(*flags) as service:
        calls = await begin(service)
        service.replicas[0].process.terminate()
        num_new = 0
        while service.replicas[0].process.returncode is None:
            assert await outcome(service.generate(stopping=SHORT)) == 3
            num_new += 1
        assert await service.replicas[0].status() == 0
        assert await asyncio.gather(*map(outcome, calls)) == [200] * NUM_STREAMS
        assert num_new > NUM_STREAMS


async def test_a_frozen_replica_is_found():
    """One that neither answers nor hangs up gets no new calls, and its streams are told so.

    The other streams go on, though they are older than Envoy's own limits of time would have it.
    """
    async with running_service(*STEP) as service:
        begun = time.monotonic()
        calls = [service.generate() for _ in range(NUM_STREAMS)]
        await asyncio.gather(*(first(call) for call in calls))
        frozen, other = service.replicas
        num_frozen = await service.envoy.num_active(frozen.address)
        assert 0 < num_frozen < NUM_STREAMS
        frozen.process.send_signal(signal.SIGSTOP)
        await service.envoy.wait_for_healthy(1)
        new = [service.generate(stopping=SHORT) for _ in range(4)]
        assert await asyncio.gather(*map(outcome, new)) == [3] * 4
        assert {await service.replica_of(call) for call in new} == {other}
        # The pings of clusters.yaml: after 10 s without an answer for 5 s, on each of Envoy's
        # connections by itself.
        await eventually(lambda: sum(call.done() for call in calls) == num_frozen)
        assert time.monotonic() - begun > DEFAULT_ROUTE_TIMEOUT_SECONDS
        frozen.process.kill()
        running = [call for call in calls if not call.done()]
        for call in running:
            await first(call)
            call.cancel()
        for call in set(calls) - set(running):
            assert (await outcome(call)).code is not grpc.StatusCode.OK
            assert await service.replica_of(call) is frozen


async def test_replicas_go_out_and_come_back():
    """One that drains is out at once, its streams go on; one that is there again is used again."""
    async with running_service(*STEP, "--lame-duck", 30) as service:
        envoy, (leaving, staying) = service.envoy, service.replicas
        calls = await begin(service)
        leaving.process.terminate()
        await envoy.wait_for_healthy(1)
        event = await envoy.wait_for_log(lambda line: "eject_unhealthy_event" in line)
        assert event["host"]["socket_address"]["port_value"] == int(leaving.address.split(":")[1])
        new = [service.generate(stopping=SHORT) for _ in range(4)]
        await asyncio.gather(*map(outcome, new))
        assert {await service.replica_of(call) for call in new} == {staying}
        assert await asyncio.gather(*map(outcome, calls)) == [200] * NUM_STREAMS
        leaving.process.kill()
        await leaving.process.wait()
        port = leaving.address.split(":")[1]
        async with server_process(*STEP, "--port", port):
            await envoy.wait_for_healthy(2)
            async with asyncio.timeout(BOUND_SECONDS):
                answered_by = None
                while answered_by is not leaving:
                    call = service.generate(stopping=SHORT)
                    assert await outcome(call) == 3
                    answered_by = await service.replica_of(call)


async def test_replicas_are_added_and_taken_away_while_envoy_runs():
    """A new clusters.yaml counts at once; streams of a replica that is no longer in it go on."""
    async with running_service(*STEP) as service:
        calls = await begin(service)
        first_replica, second_replica = service.replicas
        await service.envoy.point_to([second_replica.address])
        await service.envoy.wait_for_stat("cluster.headrace.membership_total", 1)
        new = [service.generate(stopping=SHORT) for _ in range(8)]
        await asyncio.gather(*map(outcome, new))
        assert {await service.replica_of(call) for call in new} == {second_replica}
        assert await asyncio.gather(*map(outcome, calls)) == [200] * NUM_STREAMS
        answered_by = {await service.replica_of(call) for call in calls}
        assert answered_by == {first_replica, second_replica}


async def test_a_service_that_stops_says_so():
    """With all replicas draining a caller is told to come back, and when, by one of them."""
    async with running_service(*STEP, "--lame-duck", 30) as service:
        for replica in service.replicas:
            replica.process.terminate()
        await service.envoy.wait_for_healthy(0)
        error = await failure(service.generate())
        assert (error.code, error.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert error.retry_seconds > 0


async def test_a_service_without_replicas_is_unavailable():
    """With all replicas dead a call fails at once, with a status that means to try again."""
    async with running_service(*STEP) as service:
        for replica in service.replicas:
            replica.process.kill()
            await replica.process.wait()
        async with asyncio.timeout(5):
            error = await failure(service.generate())
        assert error.code is grpc.StatusCode.UNAVAILABLE


async def test_a_full_replica_passes_calls_on():
    """A replica whose queue is full refuses, and the other takes the call."""
    full = ("--max-num-seqs", 1, "--max-queued-requests", 1)
    async with running_service(*STEP, own_flags=[full, ("--max-num-seqs", 64)]) as service:
        small, large = service.replicas
        # As from a caller that comes by another way.
        own = [small.generate(stopping=ENDLESS) for _ in range(2)]
        for call in own:
            await call.initial_metadata()
        calls = [service.generate(stopping=SHORT) for _ in range(NUM_STREAMS)]
        assert await asyncio.gather(*map(outcome, calls)) == [3] * NUM_STREAMS
        assert {await service.replica_of(call) for call in calls} == {large}
        for call in own:
            call.cancel()


async def test_clients_cannot_put_replicas_out():
    """Errors that callers make at will, in a row, do not count against the replica."""
    async with running_service(*STEP, num_replicas=1) as service:
        unknown = service.channel.unary_unary("/headrace.v1.InferenceService/Missing")
        for _ in range(20):
            with contextlib.suppress(grpc.aio.AioRpcError):
                await unknown(b"", timeout=5)
        for _ in range(20):
            call = service.generate(max_queue_duration={"nanos": 1})
            assert (await failure(call)).code is grpc.StatusCode.DEADLINE_EXCEEDED
        ejections = await service.envoy.stats("outlier_detection.*ejections_active")
        assert ejections
        assert not any(ejections.values())
        assert await outcome(service.generate(stopping=SHORT)) == 3
