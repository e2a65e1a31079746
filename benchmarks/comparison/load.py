"""The load: several streams that ask at the same time, each one request after the other."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from comparison import metric
from comparison.measurement import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comparison.answer import Answer


class Asker(Protocol):
    """Sends one request and reads its answer to the end."""

    async def ask(self, prompt: str, num_output_tokens: int) -> Answer:
        """Return when the answer has ended.

        Raises:
            RequestFailedError: the server refused or broke off.
        """


class RequestFailedError(Exception):
    """A server refused a request or broke off its answer."""


@dataclass(frozen=True, slots=True)
class Load:
    """All answers of a load."""

    answers: tuple[Answer, ...]
    wall_seconds: float

    def figures(self) -> dict[str, float]:
        """Throughput of all, medians over the requests, and the p99 over all gaps."""
        num_tokens = sum(answer.num_output_tokens for answer in self.answers)
        gaps = [gap for answer in self.answers for gap in answer.gaps_seconds]
        return {
            metric.TOKENS_PER_SECOND.key: num_tokens / self.wall_seconds,
            metric.TTFT.key: statistics.median(answer.ttft_seconds for answer in self.answers),
            metric.TPOT.key: statistics.median(answer.tpot_seconds for answer in self.answers),
            metric.GAP_P99.key: percentile(gaps, 0.99),
        }


async def run_load(
    asker: Asker, prompts: Sequence[Sequence[str]], num_prompt_tokens: int, num_output_tokens: int
) -> Load:
    """Send the prompts of every stream.

    Args:
        asker: whom to ask.
        prompts: for each stream what it asks, one after the other.
        num_prompt_tokens: of each prompt, to check the server's count.
        num_output_tokens: of each answer.

    Raises:
        RequestFailedError, WrongAnswerError: the first thing that went wrong; the other
            requests are cancelled.
    """
    answers: list[Answer] = []

    async def run_stream(texts: Sequence[str]) -> None:
        for text in texts:
            answer = await asker.ask(text, num_output_tokens)
            answer.check(num_prompt_tokens, num_output_tokens)
            answers.append(answer)

    begin = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as streams:
            for texts in prompts:
                streams.create_task(run_stream(texts))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return Load(tuple(answers), time.perf_counter() - begin)
