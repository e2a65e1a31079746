"""However a request is sent, the default model gives it one answer."""

import aiohttp
import pytest
from hypothesis import example, given, settings

from tests.gateway.properties.told import check_one_answer
from tests.gateway.properties.wishes import FORCED_CALLS, REASONING, wishes

NUM_EXAMPLES = 15
MOST_TOKENS = 12

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]


@settings(max_examples=NUM_EXAMPLES)
@given(wish=wishes(MOST_TOKENS))
@example(wish=FORCED_CALLS)
@example(wish=REASONING)
async def test_a_request_has_one_answer(stack, wish):
    """Text, calls, log probabilities, ids, reasons and counts are the same on both fronts."""
    async with aiohttp.ClientSession(stack.url) as http:
        await check_one_answer(http, stack.server.inference, wish)
