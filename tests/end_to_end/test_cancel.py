"""What a caller who leaves held on the real engine comes back at once."""

from __future__ import annotations

import asyncio
import random

import pytest

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

NUM_CANCELS = 50
# The step that runs when the cancel arrives, and the next one where that had just read its inbox.
MAX_STEPS_AFTER_CANCEL = 2


async def cancel_somewhere(stack, chance: random.Random) -> int:
    """Leave in the queue, in prefill, at the first token or later; return the steps until free."""
    call = stack.server.generate(text="word " * chance.choice((1, 40, 160)))
    match chance.randrange(4):
        case 0:
            await asyncio.sleep(0)
        case 1:
            await call.initial_metadata()
        case num_reads:
            for _ in range(num_reads):
                await call.read()
    num_steps = stack.server.backend.load.num_steps
    call.cancel()
    await stack.all_returned()
    return stack.server.backend.load.num_steps - num_steps


async def test_cancelled_work_returns_within_a_step(stack):
    """Of 50 cancels in all phases each frees the engine with the step that it meets."""
    chance = random.Random(50)
    for _ in range(NUM_CANCELS):
        assert await cancel_somewhere(stack, chance) <= MAX_STEPS_AFTER_CANCEL
