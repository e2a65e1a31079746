"""The blocking stream: pieces, the end, and cancellation by every way of leaving."""

import gc
import threading

import grpc
import pytest

from headrace import (
    CallCancelledError,
    Candidate,
    Client,
    DeadlineExceededError,
    Delta,
    Finish,
    FinishReason,
    Generation,
    InternalError,
    OverloadedError,
    Timing,
    UnavailableError,
    Usage,
)
from tests.client.scripted_server import (
    BOUND_SECONDS,
    REQUEST_ID,
    Admit,
    Hold,
    Refusal,
    end,
    piece,
)

END = Finish(FinishReason.END_OF_TEXT)
WHOLE = Generation(
    candidates=(Candidate(text="Hello 🌍", token_ids=(1, 2, 0), finish=END),),
    usage=Usage(prompt_token_count=5, output_token_count=3),
    timing=Timing(queue_seconds=0.01, first_token_seconds=0.25, total_seconds=1.5),
    request_id=REQUEST_ID,
)


def one_piece_then(hold):
    """A script that answers with one piece and waits."""

    def script(request):
        yield Admit()
        yield piece("Hel", 1)
        yield hold
        yield end()

    return script


def test_pieces_end_with_a_finish(client):
    """A stream yields the pieces as the server cut them; the last one has the finish."""
    expected = [Delta("Hel", (1,), None), Delta("lo 🌍", (2, 0), END)]
    with client.stream("Hi") as stream:
        assert list(stream) == expected


def test_generation_is_whole_after_the_loop(client):
    """After the loop the stream has the whole answer with counts and times."""
    with client.stream("Hi") as stream:
        for _ in stream:
            pass
    assert stream.generation == WHOLE
    assert stream.text == "Hello 🌍"


def test_generate_returns_the_same_answer(client, server):
    """Generate returns the whole answer, and asks the server for it in one response."""
    assert client.generate("Hi") == WHOLE
    assert server.calls[0].request.output.chunking.whole


def test_with_may_be_left_out(client):
    """A loop over a stream that was not entered makes the call itself."""
    assert "".join(delta.text for delta in client.stream("Hi")) == "Hello 🌍"


def test_no_call_is_made_before_the_stream_is_read(client, server):
    """A stream that is never entered nor iterated makes no call."""
    stream = client.stream("Hi")
    client.generate("Other")
    assert [call.request.text for call in server.calls] == ["Other"]
    assert stream.text == ""


def test_a_stream_is_read_once(client):
    """Reading or entering a stream again is refused instead of repeating the call."""
    stream = client.stream("Hi")
    list(stream)
    with pytest.raises(RuntimeError, match="read once"):
        list(stream)
    with pytest.raises(RuntimeError, match="read once"), stream:
        pass


def test_generation_is_refused_before_the_end(client, server):
    """An answer that is not complete is not given out as if it were."""
    server.script = one_piece_then(Hold())
    with client.stream("Hi") as stream:
        next(iter(stream))
        assert stream.text == "Hel"
        with pytest.raises(RuntimeError, match="not complete"):
            _ = stream.generation


def test_break_cancels(client, server):
    """Breaking out of the loop cancels the call, even while the stream is still held."""
    server.script = one_piece_then(Hold())
    stream = client.stream("Hi")
    for _ in stream:
        break
    assert server.calls[0].wait_until_cancelled()


def test_an_exception_in_the_loop_cancels(client, server):
    """An exception in the body of the loop cancels the call."""
    server.script = one_piece_then(Hold())

    def read_badly():
        for delta in client.stream("Hi"):
            raise LookupError(delta.text)

    with pytest.raises(LookupError):
        read_badly()
    assert server.calls[0].wait_until_cancelled()


def test_closing_the_iterator_cancels(client, server):
    """Closing the iterator cancels the call."""
    server.script = one_piece_then(Hold())
    pieces = iter(client.stream("Hi"))
    next(pieces)
    pieces.close()
    assert server.calls[0].wait_until_cancelled()


def test_dropping_the_iterator_cancels(client, server):
    """An iterator that is no longer referred to cancels its call."""
    server.script = one_piece_then(Hold())
    pieces = iter(client.stream("Hi"))
    next(pieces)
    del pieces
    gc.collect()
    assert server.calls[0].wait_until_cancelled()


def test_leaving_the_with_block_cancels(client, server):
    """Leaving the block cancels the call when nothing was read."""
    server.script = one_piece_then(Hold())
    with client.stream("Hi"):
        pass
    assert server.calls[0].wait_until_cancelled()


def test_leaving_the_block_after_the_finish_cancels_nothing(client, server):
    """A complete answer ends as complete, not as cancelled."""
    with client.stream("Hi") as stream:
        list(stream)
    assert server.calls[0].ended.wait(BOUND_SECONDS)
    assert not server.calls[0].was_cancelled


def test_cancel_from_another_thread_ends_the_loop(client, server):
    """Cancel ends a loop that waits in another thread, with an error that says so."""
    hold = Hold()
    server.script = one_piece_then(hold)
    stream = client.stream("Hi")

    def cancel_when_held():
        hold.reached.wait(BOUND_SECONDS)
        stream.cancel()

    thread = threading.Thread(target=cancel_when_held)
    thread.start()
    with pytest.raises(CallCancelledError):
        list(stream)
    thread.join()
    assert server.calls[0].wait_until_cancelled()


def test_a_stream_that_was_cancelled_before_it_began_is_not_read(client, server):
    """A cancel that comes before the call is not lost."""
    stream = client.stream("Hi")
    stream.cancel()
    with pytest.raises(CallCancelledError):
        list(stream)


def test_closing_the_client_ends_its_streams(server):
    """Closing the client cancels the streams that are being read."""
    hold = Hold()
    server.script = one_piece_then(hold)
    client = Client(server.target)
    stream = client.stream("Hi")

    def close_when_held():
        hold.reached.wait(BOUND_SECONDS)
        client.close()

    thread = threading.Thread(target=close_when_held)
    thread.start()
    with pytest.raises(CallCancelledError):
        list(stream)
    thread.join()


def test_entering_waits_for_admission(client, server):
    """Entering returns once the request is taken, before there is any text."""
    hold = Hold()

    def script(request):
        yield Admit()
        yield hold
        yield end("late")

    server.script = script
    with client.stream("Hi") as stream:
        hold.over.set()
        assert [delta.text for delta in stream] == ["late"]


def test_entering_raises_the_refusal(server):
    """A refusal is raised on entering, so that nothing was promised to anybody yet."""
    refusal = Refusal(
        grpc.StatusCode.RESOURCE_EXHAUSTED, "The queue is full.", "OVERLOADED", None, 1.5
    )
    server.script = lambda request: iter([refusal])
    with Client(server.target, max_attempts=1) as client:
        stream = client.stream("Hi")
        with pytest.raises(OverloadedError) as caught:
            stream.__enter__()
    assert caught.value.retry_after_seconds == 1.5


def test_entering_works_without_the_header(client, server):
    """A server or proxy that sends no request id is read all the same."""
    server.script = lambda request: iter([piece("Hel"), end("lo")])
    with client.stream("Hi") as stream:
        assert [delta.text for delta in stream] == ["Hel", "lo"]
    assert stream.generation.request_id is None


def test_an_answer_that_breaks_off_raises(client, server):
    """An error after the first piece is raised after that piece."""
    refusal = Refusal(
        grpc.StatusCode.UNAVAILABLE, "The engine died.", "ENGINE_UNAVAILABLE", None, 1.0
    )
    server.script = lambda request: iter([Admit(), piece("Hel"), refusal])
    texts = []
    with pytest.raises(UnavailableError, match="The engine died"):
        texts.extend(delta.text for delta in client.stream("Hi"))
    assert texts == ["Hel"]
    assert len(server.calls) == 1


def test_an_answer_without_a_finish_is_an_error(client, server):
    """A call that ends well without a finish breaks the contract and is not taken as whole."""
    server.script = lambda request: iter([Admit(), piece("Hel")])
    with pytest.raises(InternalError, match="before the answer was complete"):
        client.generate("Hi")


def test_timeout_cancels_and_raises(client, server):
    """Past its timeout a call is stopped on the server and raises."""
    server.script = one_piece_then(Hold())
    with pytest.raises(DeadlineExceededError, match="longer than its timeout"):
        client.generate("Hi", timeout=1)
    assert server.calls[0].wait_until_cancelled()
    assert 0 < server.calls[0].time_remaining < 2


def test_no_timeout_means_no_deadline(client, server):
    """Without a timeout the call has no deadline."""
    client.generate("Hi")
    # A call without a deadline reports a remaining time of centuries.
    assert (server.calls[0].time_remaining or 1e12) > 1e6
