"""A deadline ends a call in whatever phase it is in, as DEADLINE_EXCEEDED and never as a finish."""

import asyncio
import time

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from grpc import aio

from headrace.v1 import stopping_pb2
from tests.lifecycle.phases import FLAGS, LONG_PROMPT, SMALL_WINDOW, call_in
from tests.server.running_server import (
    BOUND_SECONDS,
    ENDLESS,
    collect,
    failure,
    first,
    running_server,
)

# Enough for a call to reach its phase on a slow machine.
TIMEOUT_SECONDS = 1.0


@pytest.mark.parametrize("phase", ["queued", "prefill", "first token", "decode"])
async def test_a_deadline_ends_a_call_in_any_phase(phase):
    """The caller gets DEADLINE_EXCEEDED and no finish, and everything returns."""
    flags = (*FLAGS, "--simulated-step-seconds", 2.5 if phase == "first token" else 0.02)
    async with running_server(*flags) as under:
        async with call_in(phase, under, timeout=TIMEOUT_SECONDS) as call:
            responses = []
            try:
                while (response := await call.read()) is not aio.EOF:
                    responses.append(response)
            except aio.AioRpcError:
                pass
            assert await call.code() is grpc.StatusCode.DEADLINE_EXCEEDED
            assert not [d for r in responses for d in r.deltas if d.HasField("finish")]
        await under.all_returned()


async def test_a_deadline_ends_a_call_that_is_blocked_in_write(caplog):
    """The server itself drops a call past its deadline, also when its client does not read."""
    caplog.set_level("INFO")
    async with running_server(*FLAGS, channel_options=SMALL_WINDOW) as under:
        async with call_in("blocked in write", under, timeout=3.0) as call:
            await under.all_returned()
            assert (await failure(call)).code is grpc.StatusCode.DEADLINE_EXCEEDED
        (record,) = [record for record in caplog.records if record.message == "call"]
        assert record.fields["code"] == "DEADLINE_EXCEEDED"
        assert record.fields["stage"] == "blocked in write"


async def test_the_longest_wait_in_the_queue_is_a_status_of_its_own():
    """Past max_queue_duration a call that waits fails with QUEUE_TIMEOUT; one that runs goes on."""
    async with running_server(*FLAGS) as under:
        limit = Duration(nanos=200_000_000)
        neighbours = [under.generate(max_queue_duration=limit) for _ in range(2)]
        for neighbour in neighbours:
            await first(neighbour)
        begin = time.monotonic()
        error = await failure(under.generate(max_queue_duration=limit))
        assert time.monotonic() - begin >= 0.199  # timers count in milliseconds
        assert (error.code, error.reason) == (
            grpc.StatusCode.DEADLINE_EXCEEDED,
            "QUEUE_TIMEOUT",
        )
        for neighbour in neighbours:
            await first(neighbour)
            neighbour.cancel()
        await under.all_returned()


@pytest.mark.parametrize("phase", ["queued", "prefill", "decode"])
async def test_the_time_limit_ends_an_answer_in_any_phase(phase):
    """Past max_duration the call ends with OK, FINISH_REASON_TIME_LIMIT and what there is."""
    flags = (*FLAGS, "--simulated-step-seconds", 0.02)
    async with running_server(*flags) as under:
        limit = {"max_duration": Duration(seconds=1)}
        async with call_in(phase, under, **limit) as call:
            last = None
            async with asyncio.timeout(BOUND_SECONDS):
                while (response := await call.read()) is not aio.EOF:
                    last = response
            assert await call.code() is grpc.StatusCode.OK
            (delta,) = last.deltas
            assert delta.finish.reason == stopping_pb2.FINISH_REASON_TIME_LIMIT
            assert last.usage.prompt_token_count > 0
        await under.all_returned()


async def test_five_hundred_requests_that_expire_in_the_queue_compute_nothing():
    """What is past its deadline before it starts is never run."""
    queue = ("--max-queued-requests", 1000, "--max-queued-tokens", 10_000_000)
    flags = (*FLAGS, *queue, "--simulated-step-seconds", 0.01)
    async with running_server(*flags) as under:
        neighbours = [under.generate(**LONG_PROMPT) for _ in range(2)]
        for neighbour in neighbours:
            await neighbour.initial_metadata()
        calls = [under.generate(timeout=1.0, stopping=ENDLESS) for _ in range(500)]
        codes = await asyncio.gather(*(call.code() for call in calls))
        assert set(codes) == {grpc.StatusCode.DEADLINE_EXCEEDED}
        for neighbour in neighbours:
            neighbour.cancel()
        await under.all_returned()
        # Prompts and answers of the neighbours; the prompts of the others would be 2,000 more.
        load = under.backend.load
        assert load.num_computed_tokens <= 2 * 6000 + 2 * load.num_steps
        assert load.num_steps < 900
        await collect(under.generate(stopping={"max_output_tokens": 1}))
