"""The choices of completions, in pieces and joined."""

import json

import msgspec
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import stopping_pb2
from headrace_gateway.openai.answer import Identity, TokenCounts
from headrace_gateway.openai.completion_choices import PromptChoices, PromptView, Shape
from headrace_gateway.openai.completion_response import CompletionChunks, completion
from headrace_gateway.openai.whole_choices import WholeChoices
from tests.gateway.openai.test_completion_logprobs import told

IDENTITY = Identity("id-1", 1700000000, "tiny")
HEAD = {"id": "id-1", "object": "text_completion", "created": 1700000000, "model": "tiny"}
USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "total_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


def as_json(value):
    return json.loads(msgspec.json.encode(value))


def delta(index=0, text="", logprobs=(), token_ids=(), is_last=False):
    message = pb.CandidateDelta(
        candidate_index=index, text=text, logprobs=logprobs, token_ids=token_ids
    )
    if is_last:
        message.finish.reason = stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS
    return message


def response(*deltas, counts=None):
    message = pb.GenerateResponse(deltas=deltas)
    if counts is not None:
        message.usage.prompt_token_count, message.usage.output_token_count = counts
    return message


def choice(index, text, reason=None, **more):
    return {"index": index, "text": text, "logprobs": None, "finish_reason": reason, **more}


NOTHING, ONE = PromptView(), Shape()


def whole(responses, view=NOTHING, shape=ONE, num_returned=None, first_index=0):
    joined = WholeChoices(PromptChoices(view, 0, shape), shape, num_returned or shape.num_choices)
    for each in responses:
        joined.add(each)
    return as_json(joined.choices(first_index))


def test_whole_completions():
    """The choices, and the counts of all together."""
    choices = PromptChoices(PromptView(), 0, Shape())
    joined = WholeChoices(choices, Shape(), 1)
    joined.add(pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5, cached_token_count=2)))
    joined.add(response(delta(text="a")))
    joined.add(response(delta(text="b", is_last=True), counts=(5, 3)))
    assert as_json(completion(IDENTITY, joined.choices(0), joined.counts)) == {
        **HEAD,
        "choices": [choice(0, "ab", "length")],
        "usage": USAGE,
    }


def test_streamed_completions():
    """Chunks have the shape of the whole; an echo is the first piece of its choice."""
    prompts = [
        PromptChoices(PromptView(echo), index, Shape()) for index, echo in enumerate(["", "echo "])
    ]
    chunks = CompletionChunks(IDENTITY, prompts, include_usage=True)
    events = [
        *chunks.opening(0),
        *chunks.opening(1),
        *chunks.chunks(1, response(delta(text="b", is_last=True), counts=(5, 3))),
        *chunks.closing(TokenCounts(5, 3, cached=2)),
    ]
    assert as_json(events) == [
        {**HEAD, "choices": [choice(1, "echo ")], "usage": None},
        {**HEAD, "choices": [choice(1, "b")], "usage": None},
        {**HEAD, "choices": [choice(1, "", "length")], "usage": None},
        {**HEAD, "choices": [], "usage": USAGE},
    ]
    unasked = CompletionChunks(IDENTITY, prompts, include_usage=False)
    assert unasked.closing(TokenCounts()) == []
    assert "usage" not in as_json(unasked.opening(1))[0]


def test_several_answers_to_several_prompts_are_numbered_through():
    """The choices of the second prompt follow those of the first, whole and in a stream."""
    both = response(delta(0, "c", is_last=True), delta(1, "d", is_last=True))
    shape = Shape(num_choices=2)
    assert whole([both], PromptView("2"), shape, first_index=2) == [
        choice(2, "2c", "length"),
        choice(3, "2d", "length"),
    ]
    choices = PromptChoices(PromptView("2"), 2, shape)
    pieces = as_json([*choices.opening(), *choices.pieces(response(delta(1, "d")))])
    assert pieces == [choice(2, "2"), choice(3, "2"), choice(3, "d")]


def test_log_probabilities_of_prompt_and_answer_are_one_text():
    """With an echo those of the prompt come first, in each choice, and the places go on."""
    shape = Shape(num_choices=2, logprobs=True)
    prompt = pb.GenerateResponse(prompt_logprobs=[told(1, b"He")])
    more = pb.GenerateResponse(prompt_logprobs=[told(2, b"y", -0.5)])
    answer = response(delta(0, " you", [told(3, b" you", -1.0)]), delta(1, "", is_last=True))
    end = response(delta(0, is_last=True))
    first, second = whole([prompt, more, answer, end], PromptView("Hey"), shape)
    assert (first["text"], second["text"]) == ("Hey you", "Hey")
    assert first["logprobs"] == {
        "tokens": ["He", "y", " you"],
        "token_logprobs": [None, -0.5, -1.0],
        "top_logprobs": [None, {"y": -0.5}, {" you": -1.0}],
        "text_offset": [0, 2, 3],
    }
    assert second["logprobs"]["tokens"] == ["He", "y"]


def test_log_probabilities_of_no_tokens_are_empty_arrays():
    """Who asked finds the arrays; who did not finds null."""
    end = [response(delta(is_last=True))]
    empty = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    assert whole(end, shape=Shape(logprobs=True))[0]["logprobs"] == empty
    assert whole(end)[0]["logprobs"] is None


def test_token_ids_are_told_on_request():
    """Those of the prompt come with the first piece, those of the answer as they are made."""
    shape, view = Shape(token_ids=True), PromptView(token_ids=(7, 8))
    choices = PromptChoices(view, 0, shape)
    responses = [response(delta(token_ids=[1])), response(delta(text="ab", token_ids=[2, 0]))]
    end = response(delta(is_last=True))
    pieces = as_json(
        [*choices.opening(), *(p for r in [*responses, end] for p in choices.pieces(r))]
    )
    assert pieces == [
        choice(0, "", token_ids=[], prompt_token_ids=[7, 8]),
        choice(0, "", token_ids=[1]),
        choice(0, "ab", token_ids=[2, 0]),
        choice(0, "", "length", token_ids=[]),
    ]
    assert whole([*responses, end], view, shape) == [
        choice(0, "ab", "length", token_ids=[1, 2, 0], prompt_token_ids=[7, 8])
    ]


@pytest.mark.parametrize(("num_returned", "texts"), [(1, ["c"]), (2, ["c", "a"]), (3, None)])
def test_the_best_answers_have_the_likeliest_tokens(num_returned, texts):
    """The mean counts, not the sum, so that a long answer is as good as a short one."""
    shape = Shape(num_choices=3)
    answer = response(
        delta(0, "a", [told(1, b"a", -1.0)], is_last=True),
        delta(1, "b", [told(2, b"b", -2.0)], is_last=True),
        delta(2, "c", [told(3, b"c", -0.75)] * 2, is_last=True),
    )
    choices = whole([answer], shape=shape, num_returned=num_returned)
    assert [c["text"] for c in choices] == (texts or ["a", "b", "c"])
    assert [c["index"] for c in choices] == list(range(num_returned))
    assert [c["logprobs"] for c in choices] == [None] * num_returned


@pytest.mark.parametrize(
    ("matched", "expected"),
    [({"stop_sequence": "END"}, "END"), ({"stop_token_id": 0}, 0), ({}, None)],
)
def test_the_stop_that_ended_a_text_is_told(matched, expected):
    """A text or a token id, whole and with the end of a stream; the model's own end is none."""
    finish = stopping_pb2.Finish(reason=stopping_pb2.FINISH_REASON_STOP_SEQUENCE, **matched)
    last = pb.GenerateResponse(deltas=[pb.CandidateDelta(text="a", finish=finish)])
    shape = Shape()
    whole = WholeChoices(PromptChoices(PromptView(), 0, shape), shape, 1)
    whole.add(last)
    [choice] = json.loads(msgspec.json.encode(whole.choices(0)))
    assert choice.get("stop_reason") == expected
    pieces = PromptChoices(PromptView(), 0, shape).pieces(last)
    told = [piece.get("stop_reason") for piece in json.loads(msgspec.json.encode(pieces))]
    assert told == [None, expected]
