"""Several candidates and log probabilities, the same for both clients."""

import inspect
import math

import pytest

import headrace
from headrace import (
    Candidate,
    Delta,
    Finish,
    FinishReason,
    InternalError,
    TokenLogprobs,
    TopLogprob,
    Usage,
)
from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import logprobs_pb2, stopping_pb2
from tests.client.scripted_server import Admit

END = Finish(FinishReason.END_OF_TEXT)
STOPPED = Finish(FinishReason.STOP_SEQUENCE, stop_sequence="!")


@pytest.fixture(params=["client", "async_client"])
def read(request):
    """Reads an answer by the one client or the other: its pieces and the whole."""
    client = request.getfixturevalue(request.param)

    async def read(*args, **options):
        stream = client.stream(*args, **options)
        if isinstance(stream, headrace.AsyncGenerationStream):
            deltas = [delta async for delta in stream]
        else:
            deltas = list(stream)
        whole = client.generate(*args, **options)
        whole = await whole if inspect.isawaitable(whole) else whole
        assert whole == stream.generation
        return deltas, whole

    return read


def delta(index, text, *token_ids, finish=None, logprobs=()):
    return pb.CandidateDelta(
        candidate_index=index, text=text, token_ids=token_ids, finish=finish, logprobs=logprobs
    )


END_MESSAGE = stopping_pb2.Finish(reason=stopping_pb2.FINISH_REASON_END_OF_TEXT)
STOPPED_MESSAGE = stopping_pb2.Finish(
    reason=stopping_pb2.FINISH_REASON_STOP_SEQUENCE, stop_sequence="!"
)
TWO = [
    Admit(),
    pb.GenerateResponse(
        prompt=pb.PromptInfo(token_count=5, cached_token_count=4),
        deltas=[delta(0, "He", 1), delta(1, "Oh", 2, finish=STOPPED_MESSAGE)],
    ),
    pb.GenerateResponse(
        deltas=[delta(0, "llo", 3, finish=END_MESSAGE)],
        usage=pb.Usage(prompt_token_count=5, output_token_count=3, reasoning_token_count=2),
    ),
]


async def test_every_candidate_is_read(read, server):
    """The pieces say whose they are, and the whole has them all; the first is at hand."""
    server.script = lambda request: iter(TWO)
    deltas, whole = await read("Hi", candidate_count=2)

    assert deltas == [
        Delta("He", (1,), None, 0),
        Delta("Oh", (2,), STOPPED, 1),
        Delta("llo", (3,), END, 0),
    ]
    assert whole.candidates == (
        Candidate("Hello", (1, 3), END),
        Candidate("Oh", (2,), STOPPED),
    )
    assert (whole.text, whole.token_ids, whole.finish) == ("Hello", (1, 3), END)
    assert whole.candidates[1].finish_reason is FinishReason.STOP_SEQUENCE
    assert whole.usage == Usage(5, 3, cached_token_count=4, reasoning_token_count=2)


async def test_a_candidate_without_an_end_breaks_the_contract(read, server):
    """An answer is complete when all that were asked for have ended."""
    server.script = lambda request: iter([Admit(), TWO[-1]])
    with pytest.raises(InternalError):
        await read("Hi", candidate_count=2)


async def test_a_candidate_that_nobody_asked_for_breaks_the_contract(read, server):
    """It is no part of the answer."""
    server.script = lambda request: iter(TWO)
    with pytest.raises(InternalError):
        await read("Hi")


def message(token_id, token_bytes, logprob, *top):
    return logprobs_pb2.TokenLogprobs(
        token_id=token_id,
        token_bytes=token_bytes,
        logprob=logprob,
        top=[logprobs_pb2.TopLogprob(token_id=i, token_bytes=b, logprob=n) for i, b, n in top],
    )


async def test_log_probabilities_stand_beside_the_tokens(read, server):
    """Those of the output with the pieces, those of the prompt in the whole."""
    server.script = lambda request: iter(
        [
            Admit(),
            pb.GenerateResponse(
                prompt=pb.PromptInfo(token_count=2),
                prompt_logprobs=[message(7, b"O", None), message(8, b"nce", -0.5)],
            ),
            pb.GenerateResponse(
                deltas=[delta(0, "", 1, logprobs=[message(1, b"\xc3", -1.0)])],
            ),
            pb.GenerateResponse(
                deltas=[
                    delta(
                        0,
                        "é",
                        2,
                        finish=END_MESSAGE,
                        logprobs=[message(2, b"\xa9", -2.0, (3, b"b", -0.25), (4, b"", -math.inf))],
                    )
                ],
                usage=pb.Usage(prompt_token_count=2, output_token_count=2),
            ),
        ]
    )
    deltas, whole = await read("Once", top_logprobs=2, prompt_logprobs=0)

    first = TokenLogprobs(1, b"\xc3", -1.0)
    second = TokenLogprobs(
        2, b"\xa9", -2.0, (TopLogprob(3, b"b", -0.25), TopLogprob(4, b"", -math.inf))
    )
    assert [each.logprobs for each in deltas] == [(first,), (second,)]
    assert whole.logprobs == (first, second)
    assert b"".join(each.token_bytes for each in whole.logprobs).decode() == whole.text
    assert (first.text, second.top[0].text) == ("\ufffd", "b")
    assert whole.prompt_logprobs == (TokenLogprobs(7, b"O", None), TokenLogprobs(8, b"nce", -0.5))
