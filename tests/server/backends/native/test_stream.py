"""The slot of one request."""

import asyncio

import pytest

from headrace_server.backends.interface import BackendFinish, PromptTokens, Started, Tokens
from headrace_server.backends.native.stream import TokenStream
from headrace_server.engine.logprobs import TokenLogprobs
from headrace_server.engine.messages import SequenceOutput
from headrace_server.errors import EngineUnavailableError, RequestFailedError

FIRST_ID = 7


class Slot:
    """A stream with these many candidates, and what it has asked the engine to stop."""

    def __init__(self, num_candidates=1):
        self.aborted = []
        ids = range(FIRST_ID, FIRST_ID + num_candidates)
        self.stream = TokenStream(ids, "a", 3, self.aborted.append)

    def put(self, *token_ids, candidate=0, finish=None, logprobs=(), prompt_logprobs=()):
        output = SequenceOutput(
            FIRST_ID + candidate,
            list(token_ids),
            logprobs=list(logprobs),
            prompt_logprobs=list(prompt_logprobs),
        )
        self.stream.put(output, finish)

    async def read_all(self):
        return [event async for events in self.stream for event in events]


@pytest.fixture
def slot():
    return Slot()


def logprob(value):
    return TokenLogprobs(value, [1], [value])


async def test_tokens_that_nobody_reads_are_merged(slot):
    """A slow reader gets the start, then everything else at once."""
    slot.stream.start(2)
    for token_id in range(5):
        slot.put(token_id)
    slot.put(5, finish=BackendFinish.STOP_TOKEN)

    assert await anext(slot.stream) == [
        Started(2),
        Tokens([0, 1, 2, 3, 4, 5], BackendFinish.STOP_TOKEN, []),
    ]
    assert await slot.read_all() == []


async def test_a_reader_that_waits_gets_each_token_as_it_comes(slot):
    """Nothing is held back from a fast reader."""
    slot.stream.start(0)
    assert await anext(slot.stream) == [Started()]
    for token_id in range(3):
        waiting = asyncio.ensure_future(anext(slot.stream))
        await asyncio.sleep(0)
        assert not waiting.done()
        slot.put(token_id)
        assert await waiting == [Tokens([token_id], None, [])]


async def test_what_a_step_makes_of_all_candidates_comes_together():
    """One read has the tokens of each candidate; the start is told once."""
    slot = Slot(3)
    for candidate in range(3):
        slot.stream.start(candidate)
        slot.put(10 + candidate, candidate=candidate)

    assert await anext(slot.stream) == [
        Started(0),
        *(Tokens([10 + candidate], None, [], candidate) for candidate in range(3)),
    ]


async def test_log_probabilities_are_merged_beside_the_tokens(slot):
    """Those of the prompt come first, and each token keeps its own."""
    slot.stream.start(0)
    slot.put(prompt_logprobs=[logprob(-1.0)])
    slot.put(prompt_logprobs=[logprob(-2.0)])
    slot.put(1, logprobs=[logprob(-3.0)])
    slot.put(2, logprobs=[logprob(-4.0)], finish=BackendFinish.STOP_TOKEN)

    assert await slot.read_all() == [
        Started(0),
        PromptTokens([logprob(-1.0), logprob(-2.0)]),
        Tokens([1, 2], BackendFinish.STOP_TOKEN, [logprob(-3.0), logprob(-4.0)]),
    ]


async def test_a_cancelled_candidate_has_no_more_events_and_the_others_go_on():
    """Only its own sequence is stopped, once; the stream ends with the last of the others."""
    slot = Slot(2)
    slot.put(1, candidate=0)
    slot.put(2, candidate=1)
    slot.stream.cancel(0)
    slot.stream.cancel(0)
    slot.put(3, candidate=0, finish=BackendFinish.STOP_TOKEN)
    slot.stream.fail_candidate(FIRST_ID, RequestFailedError("too late to matter"))
    slot.put(4, candidate=1, finish=BackendFinish.STOP_TOKEN)

    assert await slot.read_all() == [Tokens([2, 4], BackendFinish.STOP_TOKEN, [], 1)]
    assert slot.aborted == [FIRST_ID]


async def test_a_candidate_that_has_ended_needs_no_cancellation():
    """Leaving stops those that go on, and nothing else."""
    slot = Slot(3)
    slot.put(1, candidate=1, finish=BackendFinish.MAX_OUTPUT_TOKENS)
    slot.stream.cancel(1)
    slot.stream.cancel(2)
    slot.stream.leave()

    assert slot.aborted == [FIRST_ID + 2, FIRST_ID]


async def test_a_reader_whose_last_candidate_is_cancelled_does_not_wait():
    """The stream ends for who is waiting."""
    slot = Slot(2)
    waiting = asyncio.ensure_future(slot.read_all())
    await asyncio.sleep(0)
    slot.stream.cancel(1)
    slot.stream.cancel(0)

    assert await waiting == []


async def test_a_failure_comes_before_what_is_unread(slot):
    """Nobody waits for tokens of an answer that cannot be completed."""
    slot.stream.start(0)
    slot.put(1)
    slot.stream.fail(EngineUnavailableError("gone", 1.0))

    for _ in range(2):
        with pytest.raises(EngineUnavailableError):
            await anext(slot.stream)


async def test_a_cancelled_read_loses_nothing(slot):
    """The next read gets what came after a read was given up."""
    reading = asyncio.ensure_future(anext(slot.stream))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    slot.put(1, finish=BackendFinish.MAX_OUTPUT_TOKENS)

    assert await slot.read_all() == [Tokens([1], BackendFinish.MAX_OUTPUT_TOKENS, [])]
