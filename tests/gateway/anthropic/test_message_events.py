"""The events of an answer, and the whole one that they add up to."""

import json

import msgspec
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import stopping_pb2
from headrace.v1.tool_pb2 import ToolCallDelta
from headrace_gateway.anthropic.message_events import MessageEvents
from headrace_gateway.anthropic.whole_message import WholeMessage
from headrace_gateway.openai.answer import Identity, TokenCounts

COUNTS = TokenCounts(prompt=7, output=9, cached=4, reasoning=2)


def told(*deltas, reason=stopping_pb2.FINISH_REASON_END_OF_TEXT, **finish):
    """Return the events of an answer of these deltas, as JSON, and the whole answer."""
    made, whole = MessageEvents(Identity("msg_1", 0, "small")), WholeMessage()
    prompt = pb.PromptInfo(token_count=7, cached_token_count=4)
    responses = [pb.GenerateResponse(deltas=[delta]) for delta in deltas]
    responses.append(pb.GenerateResponse(deltas=[pb.CandidateDelta()]))
    responses[0].prompt.CopyFrom(prompt)
    responses[-1].deltas[0].finish.CopyFrom(stopping_pb2.Finish(reason=reason, **finish))
    events = [*made.opening(0)]
    for response in responses:
        events += made.chunks(0, response)
    events += made.closing(COUNTS)
    whole.add(events)
    as_json = [json.loads(msgspec.json.encode(event)) for event in events]
    return as_json, json.loads(msgspec.json.encode(whole.answer()))


def text(words):
    return pb.CandidateDelta(text=words)


def call(index, call_id="", name="", arguments=""):
    piece = ToolCallDelta(index=index, id=call_id, name=name, arguments_json=arguments)
    return pb.CandidateDelta(tool_calls=[piece])


def test_an_answer_of_words():
    """The events come in Anthropic's order, with the counts at both ends."""
    events, whole = told(text("Hel"), text("lo"))
    usage = {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 0,
        "output_tokens_details": {"thinking_tokens": 0},
    }
    all_usage = usage | {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 2}}
    start = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "model": "small",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    delta = {"type": "content_block_delta", "index": 0}
    assert events == [
        {"type": "message_start", "message": start},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
        {"type": "ping"},
        delta | {"delta": {"type": "text_delta", "text": "Hel"}},
        delta | {"delta": {"type": "text_delta", "text": "lo"}},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": all_usage,
        },
        {"type": "message_stop"},
    ]
    content = [{"type": "text", "text": "Hello"}]
    assert whole == start | {"content": content, "stop_reason": "end_turn", "usage": all_usage}


def test_thinking_words_and_calls_are_blocks_one_after_the_other():
    """Each block is closed before the next, and thinking ends with a signature."""
    both = pb.CandidateDelta(reasoning_text="2", text="I look")
    events, whole = told(
        pb.CandidateDelta(reasoning_text="1+"),
        both,
        call(0, "c1", "f", '{"a":'),
        call(0, arguments=" 1}"),
        call(1, "c2", "g", "{}"),
        reason=stopping_pb2.FINISH_REASON_TOOL_CALLS,
    )
    assert whole["content"] == [
        {"type": "thinking", "thinking": "1+2", "signature": ""},
        {"type": "text", "text": "I look"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
    ]
    assert whole["stop_reason"] == "tool_use"
    kinds = [(e["type"].removeprefix("content_block_"), e.get("index")) for e in events[1:-2]]
    assert kinds == [
        ("start", 0), ("ping", None), ("delta", 0), ("delta", 0), ("delta", 0), ("stop", 0),
        ("start", 1), ("delta", 1), ("stop", 1),
        ("start", 2), ("delta", 2), ("delta", 2), ("stop", 2),
        ("start", 3), ("delta", 3), ("stop", 3),
    ]  # fmt: skip
    assert [e["delta"] for e in events if e["type"] == "content_block_delta"] == [
        {"type": "thinking_delta", "thinking": "1+"},
        {"type": "thinking_delta", "thinking": "2"},
        {"type": "signature_delta", "signature": ""},
        {"type": "text_delta", "text": "I look"},
        {"type": "input_json_delta", "partial_json": '{"a":'},
        {"type": "input_json_delta", "partial_json": " 1}"},
        {"type": "input_json_delta", "partial_json": "{}"},
    ]
    starts = [e["content_block"] for e in events if e["type"] == "content_block_start"]
    assert starts[2:] == [
        {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
    ]


def test_words_after_a_call_come_last():
    """They do not interrupt a call whose arguments go on in the same piece."""
    piece = ToolCallDelta(index=0, arguments_json="}")
    _, whole = told(
        text("a"),
        call(0, "c1", "f", "{"),
        pb.CandidateDelta(text="b", tool_calls=[piece]),
        call(1, "c2", "g", "{}"),
        text("c"),
    )
    assert whole["content"] == [
        {"type": "text", "text": "a"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
        {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
        {"type": "text", "text": "bc"},
    ]


def test_an_answer_of_nothing_has_no_blocks():
    """Its events are the beginning and the end."""
    events, whole = told()
    assert [event["type"] for event in events] == ["message_start", "message_delta", "message_stop"]
    assert whole["content"] == []


@pytest.mark.parametrize(
    ("reason", "finish", "stop"),
    [
        ("MAX_OUTPUT_TOKENS", {}, ("max_tokens", None)),
        ("CONTEXT_LENGTH", {}, ("model_context_window_exceeded", None)),
        ("TIME_LIMIT", {}, ("max_tokens", None)),
        ("STOP_SEQUENCE", {"stop_sequence": "END"}, ("stop_sequence", "END")),
        ("TOOL_CALLS", {}, ("tool_use", None)),
        ("UNSPECIFIED", {}, ("end_turn", None)),
    ],
)
def test_each_end_has_its_word(reason, finish, stop):
    """A sequence that ended the answer is named."""
    number = stopping_pb2.FinishReason.Value(f"FINISH_REASON_{reason}")
    events, whole = told(text("a"), reason=number, **finish)
    assert (whole["stop_reason"], whole["stop_sequence"]) == stop
    assert tuple(events[-2]["delta"].values()) == stop


def test_the_input_of_a_call_that_was_cut_is_what_is_whole_of_it():
    """A whole answer is JSON wherever it was cut."""
    reason = stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS
    _, whole = told(call(0, "c1", "f", '{"a": 1, "b": "x'), reason=reason)
    assert whole["content"][0]["input"] == {"a": 1}
