"""The responses of Generate."""

import pytest
from google.protobuf.duration_pb2 import Duration

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import stopping_pb2
from headrace_server.rpc.convert.response import to_responses
from headrace_server.text.generation import Finish, FinishReason, TextDelta, Timing, Usage


def responses(delta, *, want_token_ids=True):
    return list(to_responses(delta, want_token_ids=want_token_ids))


def test_a_delta_is_one_flat_response():
    """Text and ids of a step go out in one delta of candidate 0, without more."""
    assert responses(TextDelta("Hé", (5, 6))) == [
        pb.GenerateResponse(deltas=[pb.CandidateDelta(text="Hé", token_ids=[5, 6])])
    ]


def test_ids_that_nobody_asked_for_are_not_sent():
    """Without output.token_ids a delta has text only."""
    assert responses(TextDelta("Hé", (5, 6)), want_token_ids=False) == [
        pb.GenerateResponse(deltas=[pb.CandidateDelta(text="Hé")])
    ]


@pytest.mark.parametrize("reason", list(FinishReason))
def test_every_reason_to_finish_has_its_twin_in_the_contract(reason):
    """The names of the reasons are those of the contract."""
    delta = TextDelta("", (), Finish(reason), Usage(3, 4), Timing(0.1, 0.25, 1.5))
    (response,) = responses(delta)
    name = stopping_pb2.FinishReason.Name(response.deltas[0].finish.reason)
    assert name == f"FINISH_REASON_{reason.name}"
    assert response.usage == pb.Usage(prompt_token_count=3, output_token_count=4)
    assert response.timing == pb.Timing(
        queue=Duration(nanos=100_000_000),
        first_token=Duration(nanos=250_000_000),
        total=Duration(seconds=1, nanos=500_000_000),
    )


def test_the_stop_that_matched_is_named():
    """A finish by a stop carries the sequence or the id, and the id 0 too."""
    by_text = Finish(FinishReason.STOP_SEQUENCE, stop_sequence="END")
    by_id = Finish(FinishReason.STOP_SEQUENCE, stop_token_id=0)
    (first,), (second,) = responses(TextDelta("", (), by_text)), responses(TextDelta("", (), by_id))
    assert first.deltas[0].finish.stop_sequence == "END"
    assert second.deltas[0].finish.WhichOneof("matched") == "stop_token_id"


def test_a_first_token_that_never_came_is_not_set():
    """Timing.first_token is absent when no token was made."""
    finish = Finish(FinishReason.TIME_LIMIT)
    (response,) = responses(TextDelta("", (), finish, Usage(1, 0), Timing(0.1, None, 0.2)))
    assert not response.timing.HasField("first_token")


def test_a_huge_delta_is_cut_below_one_mebibyte():
    """However large an answer in one piece is, no message passes 1 MiB and nothing is lost."""
    text, ids = "😀" * 300_000, tuple(range(2_000_000, 2_150_000))
    delta = TextDelta(text, ids, Finish(FinishReason.END_OF_TEXT), Usage(1, 2), Timing(0, 0, 0))
    pieces = responses(delta)
    assert max(piece.ByteSize() for piece in pieces) < 1024 * 1024
    assert "".join(piece.deltas[0].text for piece in pieces) == text
    assert tuple(i for piece in pieces for i in piece.deltas[0].token_ids) == ids
    assert [piece.deltas[0].HasField("finish") for piece in pieces] == [False, False, True]
