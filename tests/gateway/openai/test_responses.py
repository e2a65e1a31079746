"""The shapes of answers, key by key."""

import json
import math

import msgspec
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import logprobs_pb2, stopping_pb2
from headrace.v1.model_pb2 import Model
from headrace_gateway.openai.answer import (
    Identity,
    TokenCounts,
    WholeAnswer,
    WholeCandidate,
    finish_reason,
    join_responses,
)
from headrace_gateway.openai.chat_response import ChatChunks, chat_completion
from headrace_gateway.openai.model_response import model, model_list

IDENTITY = Identity("id-1", 1700000000, "tiny")
SHARED = {"id": "id-1", "created": 1700000000, "model": "tiny"}
USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "total_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


def as_json(value):
    return json.loads(msgspec.json.encode(value))


def response(text="", reason=None, usage=None):
    message = pb.GenerateResponse(deltas=[pb.CandidateDelta(text=text)])
    if reason is not None:
        message.deltas[0].finish.reason = reason
    if usage is not None:
        message.usage.prompt_token_count, message.usage.output_token_count = usage
    return message


def whole(*candidates, counts):
    """An answer of candidates given as text and reason."""
    return WholeAnswer(tuple(WholeCandidate(*each) for each in candidates), counts)


def test_every_finish_reason_of_the_contract_has_openais_word():
    """An answer that said all it had to say ended with stop, one that was cut with length."""
    words = {
        name.removeprefix("FINISH_REASON_"): finish_reason(number)
        for name, number in stopping_pb2.FinishReason.items()
        if number
    }
    assert words == {
        "END_OF_TEXT": "stop",
        "STOP_SEQUENCE": "stop",
        "MAX_OUTPUT_TOKENS": "length",
        "CONTEXT_LENGTH": "length",
        "TIME_LIMIT": "length",
        "TOOL_CALLS": "tool_calls",
    }


def test_responses_join_to_the_whole_answer():
    """The text is the concatenation of all deltas; reason and counts come with the last."""
    joined = join_responses(
        [
            pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5, cached_token_count=4)),
            response("Hel"),
            response("lo", stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS, (5, 3)),
        ],
        num_candidates=1,
    )
    assert joined == whole(("Hello", "length"), counts=TokenCounts(5, 3, cached=4))


def test_candidates_are_joined_each_for_itself():
    """A response may have pieces of several, in which one ends and another goes on."""
    both = response("a", stopping_pb2.FINISH_REASON_END_OF_TEXT)
    both.deltas.add(candidate_index=1, text="b")
    last = pb.GenerateResponse(deltas=[pb.CandidateDelta(candidate_index=1, text="c")])
    last.deltas[0].finish.reason = stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS
    joined = join_responses([both, last], num_candidates=2)
    assert joined == whole(("a", "stop"), ("bc", "length"), counts=TokenCounts())


def test_a_whole_chat():
    """The response of a chat has all keys that clients look for, the empty ones as null."""
    answer = whole(("Hello", "stop"), counts=TokenCounts(5, 3, cached=2))
    assert as_json(chat_completion(IDENTITY, answer)) == {
        "object": "chat.completion",
        **SHARED,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }


def chat_chunk(delta, reason=None, **usage):
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {"object": "chat.completion.chunk", **SHARED, "choices": [choice], **usage}


def test_a_streamed_chat():
    """The role comes first, then the text, then the end with an empty delta; no usage unasked."""
    chunks = ChatChunks(IDENTITY, include_usage=False)
    end = response("lo", stopping_pb2.FINISH_REASON_END_OF_TEXT, (5, 3))
    events = [
        *chunks.opening(0),
        *chunks.chunks(0, pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5))),
        *chunks.chunks(0, response("Hel")),
        *chunks.chunks(0, end),
        *chunks.closing(TokenCounts(5, 3, cached=2)),
    ]
    assert as_json(events) == [
        chat_chunk({"role": "assistant", "content": ""}),
        chat_chunk({"content": "Hel"}),
        chat_chunk({"content": "lo"}),
        chat_chunk({}, "stop"),
    ]


def test_usage_on_request():
    """With include_usage every chunk has a null but an extra last one, which has no choices."""
    chunks = ChatChunks(IDENTITY, include_usage=True)
    events = [*chunks.opening(0), *chunks.closing(TokenCounts(5, 3, cached=2))]
    assert as_json(events) == [
        chat_chunk({"role": "assistant", "content": ""}, usage=None),
        {"object": "chat.completion.chunk", **SHARED, "choices": [], "usage": USAGE},
    ]


def told(token_id, token_bytes, logprob, *top):
    return logprobs_pb2.TokenLogprobs(
        token_id=token_id,
        token_bytes=token_bytes,
        logprob=logprob,
        top=[logprobs_pb2.TopLogprob(token_id=1, token_bytes=b, logprob=n) for b, n in top],
    )


def test_log_probabilities_of_a_chat():
    """Each token has its place, its bytes and its rivals, whole and in a stream; so has the end."""
    piece = response("é", stopping_pb2.FINISH_REASON_END_OF_TEXT)
    piece.deltas[0].logprobs.extend(
        [
            told(1, b"\xc3", -0.5, (b"a", -0.25), (b"<end>", -math.inf)),
            told(2, b"\xa9", -1.0),
            told(1, b"", -0.125, (b"<end>", -0.125)),
            told(0, b"", -0.25),
        ]
    )
    held_back = pb.GenerateResponse(deltas=[pb.CandidateDelta(logprobs=[told(3, b"!", -2.0)])])
    first = {
        "token": "\ufffd",
        "logprob": -0.5,
        "bytes": [0xC3],
        "top_logprobs": [
            {"token": "a", "logprob": -0.25, "bytes": [97]},
            {"token": "<end>", "logprob": -9999.0, "bytes": list(b"<end>")},
        ],
    }
    second = {"token": "\ufffd", "logprob": -1.0, "bytes": [0xA9], "top_logprobs": []}
    named = {"token": "<end>", "logprob": -0.125, "bytes": list(b"<end>")}
    ends = [
        {"token": "<end>", "logprob": -0.125, "bytes": [], "top_logprobs": [named]},
        {"token": "", "logprob": -0.25, "bytes": [], "top_logprobs": []},
    ]
    third = {"token": "!", "logprob": -2.0, "bytes": [33], "top_logprobs": []}

    answer = join_responses([piece, held_back], num_candidates=1)
    [choice] = as_json(chat_completion(IDENTITY, answer))["choices"]
    assert choice["logprobs"] == {"content": [first, second, *ends, third], "refusal": None}

    chunks = ChatChunks(IDENTITY, include_usage=False)
    events = as_json([*chunks.chunks(0, held_back), *chunks.chunks(0, piece)])
    assert [event["choices"][0]["delta"] for event in events] == [
        {"content": ""},
        {"content": "é"},
        {},
    ]
    assert [event["choices"][0]["logprobs"] for event in events] == [
        {"content": [third], "refusal": None},
        {"content": [first, second, *ends], "refusal": None},
        None,
    ]


def test_token_ids_of_a_chat():
    """The prompt's stand beside the choices or in the first chunk, those of a text with it."""
    piece = response("ab", stopping_pb2.FINISH_REASON_END_OF_TEXT)
    piece.deltas[0].token_ids.extend([4, 5])
    held_back = pb.GenerateResponse(deltas=[pb.CandidateDelta(token_ids=[3])])
    answer = join_responses([held_back, piece], num_candidates=1)

    whole = as_json(chat_completion(IDENTITY, answer, prompt_token_ids=(1, 2)))
    assert whole["prompt_token_ids"] == [1, 2]
    assert whole["choices"][0]["token_ids"] == [3, 4, 5]

    chunks = ChatChunks(IDENTITY, include_usage=False, num_candidates=2, prompt_token_ids=(1, 2))
    events = as_json([*chunks.opening(0), *chunks.chunks(0, held_back), *chunks.chunks(0, piece)])
    assert [event.get("prompt_token_ids") for event in events] == [[1, 2], None, None, None, None]
    told = [event["choices"][0] for event in events[2:]]
    assert [(each["delta"], each.get("token_ids")) for each in told] == [
        ({"content": ""}, [3]),
        ({"content": "ab"}, [4, 5]),
        ({}, None),
    ]


def test_token_ids_that_nobody_asked_for_are_not_told():
    """A response without them has no keys for them."""
    piece = response("ab", stopping_pb2.FINISH_REASON_END_OF_TEXT)
    whole = as_json(chat_completion(IDENTITY, join_responses([piece], num_candidates=1)))
    assert set(whole) == {"id", "object", "created", "model", "choices", "usage"}
    assert "token_ids" not in whole["choices"][0]


def test_several_answers_to_a_chat_are_choices():
    """Each has its index, whole and in a stream."""
    answer = whole(("a", "stop"), ("b", "length"), counts=TokenCounts(5, 3))
    choices = as_json(chat_completion(IDENTITY, answer))["choices"]
    assert [(c["index"], c["message"]["content"], c["finish_reason"]) for c in choices] == [
        (0, "a", "stop"),
        (1, "b", "length"),
    ]
    chunks = ChatChunks(IDENTITY, num_candidates=2, include_usage=False)
    both = response("a", stopping_pb2.FINISH_REASON_END_OF_TEXT)
    both.deltas.add(candidate_index=1, text="b")
    events = as_json([*chunks.opening(0), *chunks.chunks(0, both)])
    assert [(e["choices"][0]["index"], e["choices"][0]["delta"]) for e in events] == [
        (0, {"role": "assistant", "content": ""}),
        (1, {"role": "assistant", "content": ""}),
        (0, {"content": "a"}),
        (0, {}),
        (1, {"content": "b"}),
    ]


def test_a_model_is_listed_under_each_of_its_names():
    """Names and aliases alike are what a request may say."""
    served = Model(name="org/tiny", aliases=["small"], context_length=2048)
    served.ready_time.seconds = 1700000000
    entry = {
        "object": "model",
        "created": 1700000000,
        "owned_by": "headrace",
        "max_model_len": 2048,
    }
    assert as_json(model_list([served])) == {
        "object": "list",
        "data": [{"id": "org/tiny", **entry}, {"id": "small", **entry}],
    }
    assert as_json(model("small", served)) == {"id": "small", **entry}


@pytest.mark.parametrize(
    ("matched", "expected"),
    [({"stop_sequence": "END"}, "END"), ({"stop_token_id": 0}, 0), ({}, None)],
)
def test_the_stop_that_ended_a_chat_is_told(matched, expected):
    """A text or a token id, whole and with the end of a stream; the model's own end is none."""
    last = response("a")
    last.deltas[0].finish.CopyFrom(
        stopping_pb2.Finish(reason=stopping_pb2.FINISH_REASON_STOP_SEQUENCE, **matched)
    )
    whole = as_json(chat_completion(IDENTITY, join_responses([last], num_candidates=1)))
    assert whole["choices"][0].get("stop_reason") == expected
    chunks = ChatChunks(IDENTITY, include_usage=False)
    told = [event["choices"][0].get("stop_reason") for event in as_json(chunks.chunks(0, last))]
    assert told == [None, expected]


def test_tokens_of_reasoning_are_told():
    """They are among those of the answer, as the server counts them."""
    last = response("a", stopping_pb2.FINISH_REASON_END_OF_TEXT, usage=(5, 3))
    last.usage.reasoning_token_count = 2
    usage = as_json(join_responses([last], num_candidates=1).counts.usage())
    assert usage["completion_tokens"] == 3
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 2}
