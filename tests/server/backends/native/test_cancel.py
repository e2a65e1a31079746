"""Cancellation in every phase: what was held comes back, and the engine computes no more."""

import asyncio
import contextlib
import random

import pytest

from headrace_server.backends.native import NativeBackend
from tests.server.backends.native.simulated_backend import (
    answer,
    make_request,
    remaining_tokens,
    running_backend,
    wait_for_start,
    wait_until,
    wait_until_idle,
)
from tests.server.engine.stepped_engine import solo_answer

STEP_SECONDS = 0.002
NUM_CANCELS = 500
NUM_WORKERS = 20


class ObservedBackend(NativeBackend):
    """A native backend that notes what comes for each sequence and when it ends."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.num_output_tokens = {}
        self.close_times = {}

    def _take_output(self, stream, output):
        count = self.num_output_tokens.get(output.sequence_id, 0)
        self.num_output_tokens[output.sequence_id] = count + len(output.token_ids)
        super()._take_output(stream, output)

    def _close(self, stream, sequence_id):
        super()._close(stream, sequence_id)
        self.close_times[sequence_id] = asyncio.get_running_loop().time()


async def leave_at_once(stream):
    """Queued."""


async def leave_after_start(stream):
    """In or after the first chunk of the prompt."""
    await wait_for_start(stream)


async def leave_after_tokens(stream):
    """Decoding, up to the last token."""
    await wait_for_start(stream)
    for _ in range(random.randrange(1, 12)):
        if await anext(stream, None) is None:
            return


async def leave_while_waiting(stream):
    """Cancelled from outside while a read waits."""
    async with asyncio.timeout(random.uniform(0, 8 * STEP_SECONDS)):
        await remaining_tokens(stream)


async def leave_after_the_end(stream):
    """Nothing is left to cancel."""
    await remaining_tokens(stream)


PHASES = [
    leave_at_once,
    leave_after_start,
    leave_after_tokens,
    leave_while_waiting,
    leave_after_the_end,
]


async def test_500_cancels_in_random_phases_return_everything():
    """p99 from cancel to returned is 100 ms and a step, one wasted step each, books balance."""
    random.seed(1)
    leave_times, requests = {}, {}

    async def cancel_many(backend):
        for _ in range(NUM_CANCELS // NUM_WORKERS):
            prompt = bytes(random.choices(b"abc def", k=random.choice([3, 40, 900])))
            request = make_request(prompt, max_output_tokens=random.choice([1, 8, 200]))
            async with backend.submit(request) as stream:
                requests[stream.sequence_ids[0]] = request
                with contextlib.suppress(TimeoutError):
                    await random.choice(PHASES)(stream)
            leave_times[stream.sequence_ids[0]] = asyncio.get_running_loop().time()

    async with running_backend(
        step_seconds=STEP_SECONDS,
        max_num_sequences=16,
        max_num_batched_tokens=256,
        max_prefill_chunk=128,
        backend_type=ObservedBackend,
    ) as backend:
        async with asyncio.TaskGroup() as tasks:
            neighbour = tasks.create_task(answer(backend, make_request(max_output_tokens=200)))
            for _ in range(NUM_WORKERS):
                tasks.create_task(cancel_many(backend))
        await wait_until_idle(backend)

        assert neighbour.result() == solo_answer(max_output_tokens=200)
        assert backend.load.num_opened == backend.load.num_closed == NUM_CANCELS + 1
        delays = sorted(
            max(0.0, backend.close_times[key] - left) for key, left in leave_times.items()
        )
        assert delays[NUM_CANCELS * 99 // 100] <= 0.1 + STEP_SECONDS
        least, most = computed_tokens(backend, requests)
        assert least <= backend.load.num_computed_tokens <= most


def computed_tokens(backend, requests):
    """The least that the outputs need, and the most that one wasted step each allows."""
    least = most = len(b"prompt") + 199  # the neighbour
    for sequence_id, request in requests.items():
        num_prompt_tokens = len(request.prompt_token_ids)
        num_output_tokens = backend.num_output_tokens[sequence_id]
        if num_output_tokens:
            least += num_prompt_tokens + num_output_tokens - 1
            most += num_prompt_tokens + num_output_tokens
        else:
            most += num_prompt_tokens
    return least, most


async def test_a_reader_that_is_cancelled_stops_the_engine():
    """Cancelling the task that reads is enough."""
    async with running_backend(step_seconds=0.005) as backend:
        task = asyncio.create_task(answer(backend, make_request(max_output_tokens=5000)))
        await wait_until(lambda: backend.load.num_running == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await wait_until_idle(backend)
        num_steps = backend.load.num_steps
        await answer(backend, make_request(max_output_tokens=1))

        assert backend.load.num_steps == num_steps + 1


async def test_a_stream_is_live_until_the_engine_has_acknowledged_its_end():
    """Leaving does not wait, and the ledger does not pretend."""
    async with running_backend(step_seconds=0.05) as backend:
        async with backend.submit(make_request(max_output_tokens=5000)) as stream:
            await wait_for_start(stream)
        assert (backend.load.num_opened, backend.load.num_closed) == (1, 0)
        await wait_until_idle(backend)

        assert (backend.load.num_opened, backend.load.num_closed) == (1, 1)
