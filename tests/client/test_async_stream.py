"""The asynchronous stream: pieces, the end, and cancellation by every way of leaving."""

import asyncio
import gc

import grpc
import pytest

from headrace import (
    AsyncClient,
    CallCancelledError,
    DeadlineExceededError,
    OverloadedError,
    UnavailableError,
)
from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, Refusal, end, piece
from tests.client.test_stream import WHOLE, one_piece_then


async def was_cancelled(record):
    """Whether the server saw the cancel; waits beside the loop, which has to deliver it."""
    return await asyncio.to_thread(record.wait_until_cancelled)


async def read(stream, first_piece=None):
    async for _ in stream:
        if first_piece is not None:
            first_piece.set()


async def test_pieces_make_the_whole_answer(async_client):
    """The pieces joined are the text of the answer, which the stream has afterwards."""
    async with async_client.stream("Hi") as stream:
        texts = [delta.text async for delta in stream]
    assert texts == ["Hel", "lo 🌍"]
    assert stream.generation == WHOLE
    assert stream.text == "Hello 🌍"


async def test_generate_returns_the_same_answer(async_client, server):
    """Generate returns the whole answer, and asks the server for it in one response."""
    assert await async_client.generate("Hi") == WHOLE
    assert server.calls[0].request.output.chunking.whole


async def test_with_may_be_left_out(async_client):
    """A loop over a stream that was not entered makes the call itself."""
    texts = [delta.text async for delta in async_client.stream("Hi")]
    assert texts == ["Hel", "lo 🌍"]


async def test_a_stream_is_read_once(async_client):
    """Reading or entering a stream again is refused instead of repeating the call."""
    stream = async_client.stream("Hi")
    await read(stream)
    with pytest.raises(RuntimeError, match="read once"):
        await read(stream)
    with pytest.raises(RuntimeError, match="read once"):
        async with stream:
            pass


async def test_break_cancels(async_client, server):
    """Breaking out of the loop cancels the call, even while the stream is still held."""
    server.script = one_piece_then(Hold())
    stream = async_client.stream("Hi")
    async for _ in stream:
        break
    assert await was_cancelled(server.calls[0])


async def test_an_exception_in_the_loop_cancels(async_client, server):
    """An exception in the body of the loop cancels the call."""
    server.script = one_piece_then(Hold())

    async def read_badly():
        async for delta in async_client.stream("Hi"):
            raise LookupError(delta.text)

    with pytest.raises(LookupError):
        await read_badly()
    assert await was_cancelled(server.calls[0])


async def test_closing_the_iterator_cancels(async_client, server):
    """Closing the iterator cancels the call."""
    server.script = one_piece_then(Hold())
    pieces = aiter(async_client.stream("Hi"))
    await anext(pieces)
    await pieces.aclose()
    assert await was_cancelled(server.calls[0])


async def test_dropping_the_iterator_cancels(async_client, server):
    """An iterator that is no longer referred to cancels its call."""
    server.script = one_piece_then(Hold())
    pieces = aiter(async_client.stream("Hi"))
    await anext(pieces)
    del pieces
    gc.collect()
    assert await was_cancelled(server.calls[0])


async def test_leaving_the_with_block_cancels(async_client, server):
    """Leaving the block cancels the call when nothing was read."""
    server.script = one_piece_then(Hold())
    async with async_client.stream("Hi"):
        pass
    assert await was_cancelled(server.calls[0])


@pytest.mark.parametrize("enters", [True, False])
async def test_cancelling_the_task_cancels(async_client, server, enters):
    """Cancelling the task that waits for a piece cancels the call and stays a cancellation."""
    server.script = one_piece_then(Hold())
    first_piece = asyncio.Event()
    stream = async_client.stream("Hi")

    async def entered():
        async with stream:
            await read(stream, first_piece)

    task = asyncio.create_task(entered() if enters else read(stream, first_piece))
    await asyncio.wait_for(first_piece.wait(), BOUND_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await was_cancelled(server.calls[0])


async def test_cancelling_the_task_before_admission_cancels(async_client, server):
    """A task that is cancelled while it waits for admission leaves no call behind."""
    hold = Hold()
    server.script = lambda request: iter([hold])
    task = asyncio.create_task(async_client.generate("Hi"))
    await asyncio.to_thread(hold.reached.wait, BOUND_SECONDS)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await was_cancelled(server.calls[0])


async def test_a_time_limit_of_asyncio_cancels(async_client, server):
    """asyncio.timeout around a call stops it on the server and raises TimeoutError."""
    server.script = one_piece_then(Hold())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await async_client.generate("Hi")
    assert await was_cancelled(server.calls[0])


async def test_cancel_ends_the_loop(async_client, server):
    """Cancel ends a loop that waits in another task, with an error and not a cancellation."""
    hold = Hold()
    server.script = one_piece_then(hold)
    stream = async_client.stream("Hi")
    task = asyncio.create_task(read(stream))
    await asyncio.to_thread(hold.reached.wait, BOUND_SECONDS)
    stream.cancel()
    with pytest.raises(CallCancelledError):
        await task


async def test_a_stream_that_was_cancelled_before_it_began_is_not_read(async_client):
    """A cancel that comes before the call is not lost."""
    stream = async_client.stream("Hi")
    stream.cancel()
    with pytest.raises(CallCancelledError):
        await read(stream)


async def test_closing_the_client_ends_its_streams(server):
    """Closing the client ends its streams with an error, and leaves their tasks alive."""
    hold = Hold()
    server.script = one_piece_then(hold)
    client = AsyncClient(server.target)
    task = asyncio.create_task(read(client.stream("Hi")))
    await asyncio.to_thread(hold.reached.wait, BOUND_SECONDS)
    await client.close()
    with pytest.raises(CallCancelledError):
        await task


async def test_entering_raises_the_refusal(server):
    """A refusal is raised on entering, so that nothing was promised to anybody yet."""
    refusal = Refusal(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "The queue is full.", "OVERLOADED", None, 1.5
    )
    server.script = lambda request: iter([refusal])
    async with AsyncClient(server.target, max_attempts=1) as client:
        with pytest.raises(OverloadedError) as caught:
            await client.stream("Hi").__aenter__()
    assert caught.value.retry_after_seconds == 1.5


async def test_entering_works_without_the_header(async_client, server):
    """A server or proxy that sends no request id is read all the same."""
    server.script = lambda request: iter([piece("Hel"), end("lo")])
    async with async_client.stream("Hi") as stream:
        assert [delta.text async for delta in stream] == ["Hel", "lo"]
    assert stream.generation.request_id is None


async def test_an_answer_that_breaks_off_raises(async_client, server):
    """An error after the first piece is raised after that piece."""
    refusal = Refusal(grpc.StatusCode.UNAVAILABLE, "The engine died.", "ENGINE_UNAVAILABLE")
    server.script = lambda request: iter([Admit(), piece("Hel"), refusal])
    stream = async_client.stream("Hi")
    with pytest.raises(UnavailableError, match="The engine died"):
        await read(stream)
    assert stream.text == "Hel"


async def test_timeout_cancels_and_raises(async_client, server):
    """Past its timeout a call is stopped on the server and raises."""
    server.script = one_piece_then(Hold())
    with pytest.raises(DeadlineExceededError, match="longer than its timeout"):
        await async_client.generate("Hi", timeout=1)
    assert await was_cancelled(server.calls[0])


def test_a_client_may_be_made_outside_the_loop(server):
    """A client made before the event loop runs works in it."""
    client = AsyncClient(server.target)

    async def use():
        async with client:
            return await client.generate("Hi")

    assert asyncio.run(use()) == WHOLE


async def test_a_client_that_was_not_used_closes(server):
    """Closing a client that never connected does nothing."""
    await AsyncClient(server.target).close()
