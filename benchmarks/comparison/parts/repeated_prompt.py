"""A prompt that a server has seen before: how much sooner its answer begins."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from comparison.metric import Metric

if TYPE_CHECKING:
    from comparison.parts.context import Context

FIRST: Final = Metric("first_ttft_seconds", "first ms", 1e3, 0, is_better_high=False)
SECOND: Final = Metric("second_ttft_seconds", "second ms", 1e3, 0, is_better_high=False)
SPEED_UP: Final = Metric("first_by_second", "first / second", 1.0, 1, is_better_high=True)

METRICS: Final = (FIRST, SECOND, SPEED_UP)

_NUM_OUTPUT_TOKENS = 4


async def measure_repeated_prompt(
    context: Context, num_prompts: int, num_prompt_tokens: int
) -> dict[str, float]:
    """Send each prompt twice, on an idle server; medians over the prompts."""
    await context.warm_up("repeated", 1)
    firsts: list[float] = []
    seconds: list[float] = []
    for text in context.texts("repeated", num_prompts, num_prompt_tokens):
        for times in (firsts, seconds):
            answer = await context.asker.ask(text, _NUM_OUTPUT_TOKENS)
            answer.check(num_prompt_tokens, _NUM_OUTPUT_TOKENS)
            times.append(answer.ttft_seconds)
    first, second = statistics.median(firsts), statistics.median(seconds)
    return {FIRST.key: first, SECOND.key: second, SPEED_UP.key: first / second}
