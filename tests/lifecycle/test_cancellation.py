"""A caller who leaves stops the work, whenever that is, and nothing of it stays."""

import asyncio
import functools
import statistics
import time
from pathlib import Path

import grpc
import pytest

from tests.lifecycle.phases import FLAGS, PHASES, SMALL_WINDOW, call_in
from tests.server.running_server import collect, eventually, failure, running_server


def num_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("phase", PHASES)
async def test_a_cancelled_call_leaves_nothing(phase):
    """Blocks, ledger, tasks and descriptors are as before the call, in whatever phase it ended."""
    async with running_server(*FLAGS, channel_options=SMALL_WINDOW) as under:
        await collect(under.generate(stopping={"max_output_tokens": 1}))
        await under.all_returned()
        tasks, descriptors = len(asyncio.all_tasks()), num_descriptors()
        for _ in range(5):
            async with call_in(phase, under) as call:
                assert call.cancel()
                call.cancel()  # a second time changes nothing
                assert await call.code() is grpc.StatusCode.CANCELLED
            del call
            await under.all_returned()
        await eventually(
            lambda: len(asyncio.all_tasks()) <= tasks and num_descriptors() <= descriptors,
            asyncio.all_tasks,
        )


async def test_a_call_cancelled_after_its_end_changes_nothing():
    """Cancelling what is over is not an error."""
    async with running_server() as under:
        call = under.generate(stopping={"max_output_tokens": 3})
        await collect(call)
        assert not call.cancel()
        assert await call.code() is grpc.StatusCode.OK
        await under.all_returned()


@pytest.mark.parametrize("phase", PHASES)
async def test_a_closed_connection_is_a_cancellation(phase):
    """A client whose connection goes away leaves as little as one that cancels."""
    async with running_server(*FLAGS, channel_options=SMALL_WINDOW) as under:
        async with call_in(phase, under):
            await under.channel.close()
        await under.all_returned()


async def test_five_hundred_cancels_return_everything_at_once():
    """The 95th of 100 cancels has returned everything after 100 ms and a step, in all phases.

    On an idle machine the 99th does; on a busy one the last few are those that had to wait for it.
    """
    step_seconds = 0.002
    phases = [PHASES[number % 5] for number in range(460)] + [PHASES[5]] * 40
    flags = (*FLAGS, "--simulated-step-seconds", step_seconds)
    seconds = []
    async with running_server(*flags, channel_options=SMALL_WINDOW) as under:
        for phase in phases:
            async with call_in(phase, under) as call:
                load = under.backend.load
                begin = time.monotonic()
                call.cancel()
                await eventually(functools.partial(has_closed, under.backend, load))
                seconds.append(time.monotonic() - begin)
            await under.all_returned()
    percentiles = statistics.quantiles(seconds, n=100)
    print(f"p50 {percentiles[49] * 1000:.1f} ms, p99 {percentiles[98] * 1000:.1f} ms")
    assert percentiles[94] <= 0.1 + step_seconds


@pytest.mark.parametrize("phase", ["prefill", "first token", "decode"])
async def test_a_cancel_wastes_at_most_a_step(phase):
    """The engine computes at most the step that runs and one that had been told too late."""
    async with running_server(*FLAGS, "--simulated-step-seconds", 0.2) as under:
        async with call_in(phase, under) as call:
            num_steps = under.backend.load.num_steps
            call.cancel()
        await under.all_returned()
        assert under.backend.load.num_steps <= num_steps + 2


def has_closed(backend, before):
    """Whether one more request has reached its end, if it had been opened at all."""
    load = backend.load
    return load.num_closed > before.num_closed or load.num_opened == load.num_closed


async def test_a_label_is_free_as_soon_as_its_call_is_cancelled():
    """Sending a request again after cancelling it is not a duplicate."""
    async with running_server(*FLAGS) as under:
        for _ in range(20):
            call = under.generate(request_id="again")
            await call.initial_metadata()
            call.cancel()
            await under.all_returned()
        error = await failure(under.generate(model="no", request_id="again"))
        assert error.code is grpc.StatusCode.NOT_FOUND
