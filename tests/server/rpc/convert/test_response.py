"""The responses of Generate."""

import math

import pytest
from google.protobuf.duration_pb2 import Duration

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import logprobs_pb2, stopping_pb2, tool_pb2
from headrace_server.rpc.convert.response import to_responses
from headrace_server.text.delta import (
    AnswerDelta,
    CandidateDelta,
    Finish,
    FinishReason,
    PromptInfo,
    Timing,
    ToolCallPiece,
    Usage,
)
from headrace_server.text.logprobs import TextLogprobs

MEBIBYTE = 1024 * 1024


def responses(delta, *, want_token_ids=True):
    return list(to_responses(delta, want_token_ids=want_token_ids))


def ended(finish, usage=None, timing=None):
    return AnswerDelta([CandidateDelta(0, "", (), finish=finish)], usage=usage, timing=timing)


def test_a_delta_is_one_flat_response():
    """Text and ids of a step go out in one delta of candidate 0, without more."""
    assert responses(AnswerDelta([CandidateDelta(0, "Hé", (5, 6))])) == [
        pb.GenerateResponse(deltas=[pb.CandidateDelta(text="Hé", token_ids=[5, 6])])
    ]


def test_candidates_go_out_together():
    """Each has a delta of its own with its index."""
    candidates = [CandidateDelta(1, "a", [1]), CandidateDelta(3, "b", [2])]
    assert responses(AnswerDelta(candidates)) == [
        pb.GenerateResponse(
            deltas=[
                pb.CandidateDelta(candidate_index=1, text="a", token_ids=[1]),
                pb.CandidateDelta(candidate_index=3, text="b", token_ids=[2]),
            ]
        )
    ]


def test_the_prompt_is_told():
    """Its tokens, and those that were found in the cache."""
    [response] = responses(AnswerDelta([CandidateDelta(0, "a", [1])], prompt=PromptInfo(9, 4)))
    assert response.prompt == pb.PromptInfo(token_count=9, cached_token_count=4)


def test_ids_that_nobody_asked_for_are_not_sent():
    """Without output.token_ids a delta has text only."""
    delta = AnswerDelta([CandidateDelta(0, "Hé", (5, 6))])
    assert responses(delta, want_token_ids=False) == [
        pb.GenerateResponse(deltas=[pb.CandidateDelta(text="Hé")])
    ]


LOGPROBS = TextLogprobs(5, b"\xf0\x9f", -0.5, [6, 0], [b"H", b""], [-0.25, -math.inf])
LOGPROBS_MESSAGE = logprobs_pb2.TokenLogprobs(
    token_id=5,
    token_bytes=b"\xf0\x9f",
    logprob=-0.5,
    top=[
        logprobs_pb2.TopLogprob(token_id=6, token_bytes=b"H", logprob=-0.25),
        logprobs_pb2.TopLogprob(token_id=0, token_bytes=b"", logprob=-math.inf),
    ],
)


def test_log_probabilities_stand_beside_the_tokens():
    """They are sent whether ids are wanted or not."""
    delta = AnswerDelta([CandidateDelta(0, "H", [5], [LOGPROBS])])
    for want_token_ids in (True, False):
        [response] = responses(delta, want_token_ids=want_token_ids)
        assert list(response.deltas[0].logprobs) == [LOGPROBS_MESSAGE]


def test_those_of_the_prompt_have_a_response_of_their_own():
    """The first token has no number, which is not the number 0."""
    first, second = TextLogprobs(7, b"a", None), LOGPROBS
    [response] = responses(AnswerDelta(prompt=PromptInfo(2), prompt_logprobs=[first, second]))
    assert response == pb.GenerateResponse(
        prompt=pb.PromptInfo(token_count=2),
        prompt_logprobs=[
            logprobs_pb2.TokenLogprobs(token_id=7, token_bytes=b"a"),
            LOGPROBS_MESSAGE,
        ],
    )
    assert not response.prompt_logprobs[0].HasField("logprob")


@pytest.mark.parametrize("reason", list(FinishReason))
def test_every_reason_to_finish_has_its_twin_in_the_contract(reason):
    """The names of the reasons are those of the contract."""
    (response,) = responses(ended(Finish(reason), Usage(3, 4, 2), Timing(0.1, 0.25, 1.5)))
    name = stopping_pb2.FinishReason.Name(response.deltas[0].finish.reason)
    assert name == f"FINISH_REASON_{reason.name}"
    counts = {"prompt_token_count": 3, "output_token_count": 4, "reasoning_token_count": 2}
    assert response.usage == pb.Usage(**counts)
    assert response.timing == pb.Timing(
        queue=Duration(nanos=100_000_000),
        first_token=Duration(nanos=250_000_000),
        total=Duration(seconds=1, nanos=500_000_000),
    )


def test_the_stop_that_matched_is_named():
    """A finish by a stop carries the sequence or the id, and the id 0 too."""
    by_text = Finish(FinishReason.STOP_SEQUENCE, stop_sequence="END")
    by_id = Finish(FinishReason.STOP_SEQUENCE, stop_token_id=0)
    (first,), (second,) = responses(ended(by_text)), responses(ended(by_id))
    assert first.deltas[0].finish.stop_sequence == "END"
    assert second.deltas[0].finish.WhichOneof("matched") == "stop_token_id"


def test_a_first_token_that_never_came_is_not_set():
    """Timing.first_token is absent when no token was made."""
    finish = Finish(FinishReason.TIME_LIMIT)
    (response,) = responses(ended(finish, Usage(1, 0), Timing(0.1, None, 0.2)))
    assert not response.timing.HasField("first_token")


def joined(pieces, index):
    """Text, ids, log probabilities and ends of a candidate over all responses."""
    deltas = [d for piece in pieces for d in piece.deltas if d.candidate_index == index]
    text = "".join(delta.text for delta in deltas)
    ids = [i for delta in deltas for i in delta.token_ids]
    told = [each.token_id for delta in deltas for each in delta.logprobs]
    return text, ids, told, [delta.HasField("finish") for delta in deltas]


def test_reasoning_and_calls_stand_beside_the_text():
    """Only the first piece of a call has its id and name."""
    calls = [ToolCallPiece(0, "", "", "}"), ToolCallPiece(1, "c1", "f", "{")]
    [response] = responses(
        AnswerDelta([CandidateDelta(0, "H", (), reasoning="hm", tool_calls=calls)])
    )
    assert response.deltas == [
        pb.CandidateDelta(
            text="H",
            reasoning_text="hm",
            tool_calls=[
                tool_pb2.ToolCallDelta(arguments_json="}"),
                tool_pb2.ToolCallDelta(index=1, id="c1", name="f", arguments_json="{"),
            ],
        )
    ]


def test_huge_reasoning_and_calls_are_cut_below_one_mebibyte():
    """Joined they are what was said, in the order of reasoning, text and calls."""
    calls = [ToolCallPiece(i, f"c{i}", "f" * 64, "é🌊" * (i * 100_000 + 1)) for i in range(4)]
    calls += [ToolCallPiece(4 + i, f"c{i}", "g", "") for i in range(9000)]
    candidate = CandidateDelta(
        0, "t" * 700_000, tuple(range(9)), reasoning="r" * 900_000, tool_calls=calls
    )
    pieces = responses(AnswerDelta([candidate], usage=Usage(1, 9)))
    assert all(piece.ByteSize() < 2**20 for piece in pieces)
    deltas = [delta for piece in pieces for delta in piece.deltas]
    assert "".join(delta.reasoning_text for delta in deltas) == candidate.reasoning
    assert "".join(delta.text for delta in deltas) == candidate.text
    names, arguments = {}, {}
    for call in (call for delta in deltas for call in delta.tool_calls):
        names[call.index] = names.get(call.index, "") + call.id + call.name
        arguments[call.index] = arguments.get(call.index, "") + call.arguments_json
    assert names == {call.index: call.id + call.name for call in calls}
    assert arguments == {call.index: call.arguments for call in calls}
    said = [
        kind
        for delta in deltas
        for kind, is_there in (("r", delta.reasoning_text), ("t", delta.text))
        if is_there
    ]
    assert said == sorted(said)


def test_a_huge_delta_is_cut_below_one_mebibyte():
    """However large an answer in one piece is, no message passes 1 MiB and nothing is lost."""
    text, ids = "😀" * 400_000, tuple(range(2_000_000, 2_150_000))
    end = Finish(FinishReason.END_OF_TEXT)
    delta = AnswerDelta(
        [CandidateDelta(0, text, ids, finish=end)], PromptInfo(1), (), Usage(1, 2), Timing(0, 0, 0)
    )
    pieces = responses(delta)
    assert max(piece.ByteSize() for piece in pieces) < MEBIBYTE
    assert joined(pieces, 0) == (text, list(ids), [], [False, False, True])
    assert [piece.HasField("prompt") for piece in pieces] == [True, False, False]
    assert [piece.HasField("usage") for piece in pieces] == [False, False, True]


def test_huge_candidates_with_log_probabilities_are_cut_below_one_mebibyte():
    """Each token keeps its own, each candidate its order and its one end, whatever fits where."""
    ids = list(range(2_000_000, 2_001_500))
    rivals = (ids[:20], [b"x" * 40] * 20, [-0.5] * 20)
    told = [TextLogprobs(each, b"y" * 40, -0.5, *rivals) for each in ids]
    stop = Finish(FinishReason.STOP_SEQUENCE, stop_sequence="😀" * 256)
    candidates = [CandidateDelta(i, "é" * 50_000, ids, told, stop) for i in range(16)]
    pieces = responses(AnswerDelta(candidates, usage=Usage(1, 2), timing=Timing(0, 0, 0)))
    assert max(piece.ByteSize() for piece in pieces) < MEBIBYTE
    for index in range(16):
        text, found_ids, found_told, ends = joined(pieces, index)
        assert (text, found_ids, found_told) == ("é" * 50_000, ids, ids)
        assert ends == [False] * (len(ends) - 1) + [True]
    assert all(len(d.token_ids) == len(d.logprobs) for piece in pieces for d in piece.deltas)


@pytest.mark.parametrize("num_bytes", [6, 2_000])
def test_a_long_prompt_is_told_in_pieces_below_one_mebibyte(num_bytes):
    """8192 tokens with 20 rivals each, also where every token is very long."""
    num_tokens = 8192 if num_bytes == 6 else 200
    rivals = (range(20), [b"x" * num_bytes] * 20, [-0.5] * 20)
    told = [TextLogprobs(i, b"y" * num_bytes, -0.5, *rivals) for i in range(num_tokens)]
    pieces = responses(AnswerDelta(prompt=PromptInfo(num_tokens), prompt_logprobs=told))
    assert max(piece.ByteSize() for piece in pieces) < MEBIBYTE
    found = [each.token_id for piece in pieces for each in piece.prompt_logprobs]
    assert found == list(range(num_tokens))
    assert [piece.HasField("prompt") for piece in pieces] == [True] + [False] * (len(pieces) - 1)
    assert not any(piece.deltas for piece in pieces)
