"""What running answers feel when long prompts arrive."""

from __future__ import annotations

import asyncio
import statistics
from typing import TYPE_CHECKING, Final

from comparison.cell import Cell
from comparison.measurement import percentile
from comparison.metric import Metric

if TYPE_CHECKING:
    from comparison.load import Load
    from comparison.parts.context import Context

ALONE: Final = Metric("alone_gap_p99_seconds", "p99 gap alone ms", 1e3, 0, is_better_high=False)
DISTURBED: Final = Metric("disturbed_gap_p99_seconds", "disturbed ms", 1e3, 0, is_better_high=False)
LONGEST: Final = Metric("disturbed_gap_longest_seconds", "longest ms", 1e3, 0, is_better_high=False)
LONG_TTFT: Final = Metric("long_ttft_seconds", "TTFT of long ms", 1e3, 0, is_better_high=False)

METRICS: Final = (ALONE, DISTURBED, LONGEST, LONG_TTFT)

RUNNING: Final = Cell(num_streams=8, num_prompt_tokens=64, num_output_tokens=96)
LONG_PROMPT_TOKENS: Final = 2000
_NUM_LONG_PROMPTS = 3


async def measure_interference(context: Context) -> dict[str, float]:
    """Gaps of the running streams alone, then while long prompts arrive among them.

    The long prompts arrive at even distances of the time that the streams took alone, so
    that all of them meet running streams on every server.
    """
    await context.warm_up("interference", RUNNING.num_streams)
    alone, _ = await context.run("interference alone", RUNNING)
    texts = context.texts("interference long", _NUM_LONG_PROMPTS, LONG_PROMPT_TOKENS)
    interval_seconds = alone.wall_seconds / (len(texts) + 1)

    async def send_late(text: str, wait_seconds: float) -> float:
        await asyncio.sleep(wait_seconds)
        answer = await context.asker.ask(text, 1)
        answer.check(LONG_PROMPT_TOKENS, 1)
        return answer.ttft_seconds

    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(context.run("interference disturbed", RUNNING))
            late = [
                group.create_task(send_late(text, interval_seconds * (index + 1)))
                for index, text in enumerate(texts)
            ]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    disturbed, _ = running.result()
    return {
        ALONE.key: percentile(_gaps(alone), 0.99),
        DISTURBED.key: percentile(_gaps(disturbed), 0.99),
        LONGEST.key: max(_gaps(disturbed)),
        LONG_TTFT.key: statistics.median(task.result() for task in late),
    }


def _gaps(load: Load) -> list[float]:
    return [gap for answer in load.answers for gap in answer.gaps_seconds]
