"""The slot of one stream."""

import asyncio

import pytest

from headrace_server.backends.interface import BackendFinish, Started, Tokens
from headrace_server.backends.native.stream import TokenStream
from headrace_server.errors import EngineUnavailableError


@pytest.fixture
def stream():
    return TokenStream(sequence_id=0, request_id="a", num_prompt_tokens=3)


async def read_all(stream):
    return [event async for event in stream]


async def test_tokens_that_nobody_reads_are_merged(stream):
    """A slow reader gets the start, then everything else at once."""
    stream.start()
    for token_id in range(5):
        stream.put([token_id], None)
    stream.put([5], BackendFinish.STOP_TOKEN)

    assert await read_all(stream) == [
        Started(),
        Tokens([0, 1, 2, 3, 4, 5], BackendFinish.STOP_TOKEN),
    ]


async def test_a_reader_that_waits_gets_each_token_as_it_comes(stream):
    """Nothing is held back from a fast reader."""
    stream.start()
    assert await anext(stream) == Started()
    for token_id in range(3):
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        assert not waiting.done()
        stream.put([token_id], None)
        assert await waiting == Tokens([token_id], None)


async def test_a_failure_comes_before_what_is_unread(stream):
    """Nobody waits for tokens of an answer that cannot be completed."""
    stream.start()
    stream.put([1], None)
    stream.fail(EngineUnavailableError("gone", 1.0))

    for _ in range(2):
        with pytest.raises(EngineUnavailableError):
            await anext(stream)


async def test_a_cancelled_read_loses_nothing(stream):
    """The next read gets what came after a read was given up."""
    reading = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    stream.put([1], BackendFinish.MAX_OUTPUT_TOKENS)

    assert await read_all(stream) == [Tokens([1], BackendFinish.MAX_OUTPUT_TOKENS)]
