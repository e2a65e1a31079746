"""Streams that ask at the same time."""

import asyncio

import pytest

from comparison.answer import Answer, WrongAnswerError
from comparison.load import Load, RequestFailedError, run_load


class FakeAsker:
    """Answers when as many requests are in flight as there are streams."""

    def __init__(self, num_streams, num_output_tokens=4, failure=None):
        self._barrier = asyncio.Barrier(num_streams)
        self._num_output_tokens = num_output_tokens
        self._failure = failure
        self.prompts = []

    async def ask(self, prompt, num_output_tokens):
        self.prompts.append(prompt)
        await self._barrier.wait()
        if self._failure:
            raise self._failure
        return Answer(0.0, (1.0, 2.0), 2.0, 8, self._num_output_tokens)


async def test_streams_ask_together_and_each_its_requests_in_order():
    """The barrier lets nobody through before all have asked."""
    asker = FakeAsker(num_streams=2)
    load = await run_load(asker, [["a1", "a2"], ["b1", "b2"]], 8, 4)
    assert sorted(asker.prompts[:2]) == ["a1", "b1"]
    assert sorted(asker.prompts[2:]) == ["a2", "b2"]
    assert len(load.answers) == 4


async def test_an_answer_of_the_wrong_length_ends_the_load():
    """No figure is made of it."""
    with pytest.raises(WrongAnswerError, match="4 tokens were asked for and 3 came"):
        await run_load(FakeAsker(1, num_output_tokens=3), [["a"]], 8, 4)


async def test_the_first_failure_ends_the_load_as_itself():
    """Not as a group of exceptions."""
    asker = FakeAsker(2, failure=RequestFailedError("HTTP 503"))
    with pytest.raises(RequestFailedError, match="HTTP 503"):
        await run_load(asker, [["a"], ["b"]], 8, 4)


def test_figures_are_the_sum_the_medians_and_the_tail():
    """Throughput counts all tokens in the whole time; the p99 is over all gaps."""
    answers = tuple(
        Answer(0.0, (first, first + 0.5, first + 1.0), first + 1.0, 64, 5)
        for first in (1.0, 2.0, 6.0)
    )
    assert Load(answers, wall_seconds=7.5).figures() == {
        "tokens_per_second": 15 / 7.5,
        "ttft_seconds": 2.0,
        "tpot_seconds": 0.25,
        "gap_p99_seconds": 0.5,
    }
