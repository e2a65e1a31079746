"""A response while it is made."""

import json

import msgspec
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import logprobs_pb2, stopping_pb2, tool_pb2
from headrace_gateway.openai.answer import Identity, TokenCounts
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.responses.response_events import ResponseEvents
from headrace_gateway.responses.response_request import parse_response_request

EVENT = TypeAdapter(ResponseStreamEvent)
COUNTS = TokenCounts(prompt=5, output=4, cached=3, reasoning=2)
TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]


def delta(text="", reasoning="", calls=(), finish=None, logprobs=()):
    message = pb.CandidateDelta(
        text=text, reasoning_text=reasoning, tool_calls=calls, logprobs=logprobs
    )
    if finish is not None:
        message.finish.reason = stopping_pb2.FinishReason.Value(f"FINISH_REASON_{finish}")
    return message


def piece(index, arguments, call_id="", name=""):
    return tool_pb2.ToolCallDelta(index=index, id=call_id, name=name, arguments_json=arguments)


def logprob(token, value=-1.0):
    return logprobs_pb2.TokenLogprobs(token_bytes=token, logprob=value)


def response_events(**fields):
    request = parse_response_request({"input": "Hi", **fields})
    return ResponseEvents(Identity("resp_ab", 7, "m"), request.settings)


def decoded(events):
    """Return events as OpenAI's library reads them, and check that it can."""
    raw = [msgspec.json.encode(event) for event in events]
    for data in raw:
        EVENT.validate_json(data)
    return [json.loads(data) for data in raw]


def stream(*deltas, **fields):
    """Return the events of a whole stream."""
    made = response_events(**fields)
    events = made.opening(0)
    for each in deltas:
        events += made.chunks(0, pb.GenerateResponse(deltas=[each]))
    return decoded([*events, *made.closing(COUNTS)])


def kinds(events):
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_is_told_in_the_order_of_the_api():
    """Its item, its part, its pieces, and the ends of them; the numbers have no gap."""
    events = stream(delta("He"), delta("y"), delta(finish="END_OF_TEXT"))
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert {event["response"]["id"] for event in events if "response" in event} == {"resp_ab"}
    [message] = events[-1]["response"]["output"]
    assert events[-2]["item"] == message
    assert (message["status"], message["content"][0]["text"]) == ("completed", "Hey")
    assert events[6]["text"] == events[7]["part"]["text"] == "Hey"


def test_the_whole_response_is_as_the_library_reads_it():
    """It repeats what was set, and has the counts."""
    made = response_events(
        tools=TOOLS,
        tool_choice={"type": "function", "name": "f"},
        instructions="Be brief.",
        temperature=0.5,
        metadata={"a": "b"},
        text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    )
    made.chunks(0, pb.GenerateResponse(deltas=[delta("Hey", finish="END_OF_TEXT")]))
    read = Response.model_validate_json(msgspec.json.encode(made.whole(COUNTS)))
    assert (read.id, read.created_at, read.model, read.status) == ("resp_ab", 7, "m", "completed")
    assert (read.output_text, read.instructions, read.temperature) == ("Hey", "Be brief.", 0.5)
    assert (read.tools[0].name, read.tool_choice.name, read.metadata) == ("f", "f", {"a": "b"})
    assert read.text.format.schema_ == {"type": "object"}
    assert (read.usage.input_tokens, read.usage.output_tokens, read.usage.total_tokens) == (5, 4, 9)
    assert read.usage.input_tokens_details.cached_tokens == 3
    assert read.usage.output_tokens_details.reasoning_tokens == 2
    assert (read.error, read.incomplete_details, read.previous_response_id) == (None, None, None)
    assert read.store is False


def test_reasoning_text_and_calls_are_items_in_the_order_of_the_answer():
    """Each is over before the next begins; a text behind a call is an item of its own."""
    events = stream(
        delta(reasoning="h"),
        delta("a", reasoning="m"),
        delta(calls=[piece(0, "", "c0", "f")]),
        delta(calls=[piece(0, "{"), piece(0, "}"), piece(1, "{}", "c1", "f")]),
        delta("b", finish="TOOL_CALLS"),
        tools=TOOLS,
    )
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "message",
    ]
    assert output[0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    calls = [(c["call_id"], c["name"], c["arguments"]) for c in output[2:4]]
    assert calls == [("c0", "f", "{}"), ("c1", "f", "{}")]
    assert [item["content"][0]["text"] for item in (output[1], output[4])] == ["a", "b"]
    assert len({item["id"] for item in output}) == 5
    assert {item["status"] for item in output} == {"completed"}
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == output
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == [0, 1, 2, 3, 4]
    assert [event["item"]["id"] for event in added] == [item["id"] for item in output]


def test_pieces_join_to_what_is_done():
    """Of arguments and of reasoning."""
    events = stream(
        delta(reasoning="h"),
        delta(reasoning="m"),
        delta(calls=[piece(0, "{", "c", "f")]),
        delta(calls=[piece(0, "}")], finish="TOOL_CALLS"),
        tools=TOOLS,
    )
    for kind, key in (("reasoning_text", "text"), ("function_call_arguments", "arguments")):
        deltas = [e["delta"] for e in events if e["type"] == f"response.{kind}.delta"]
        [done] = [e[key] for e in events if e["type"] == f"response.{kind}.done"]
        assert len(deltas) == 2
        assert "".join(deltas) == done


@pytest.mark.parametrize("reason", ["MAX_OUTPUT_TOKENS", "CONTEXT_LENGTH", "TIME_LIMIT"])
def test_an_answer_that_is_cut_is_incomplete(reason):
    """So is its last item, and no other."""
    calls = [piece(0, '{"a', "c", "f")]
    events = stream(delta("a"), delta(calls=calls, finish=reason), tools=TOOLS)
    last = events[-1]
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert [item["status"] for item in last["response"]["output"]] == ["completed", "incomplete"]


def test_an_answer_without_words_is_an_empty_message():
    """There is always an item."""
    [item] = stream(delta(finish="END_OF_TEXT"))[-1]["response"]["output"]
    assert (item["type"], item["content"][0]["text"]) == ("message", "")


def test_log_probabilities_are_those_of_the_text():
    """They wait for it where they come before, and have none where nothing is said."""
    events = stream(
        delta(logprobs=[logprob(b"H", -2)]),
        delta("Hé", logprobs=[logprob("é".encode()), logprob(b"")], finish="END_OF_TEXT"),
    )
    [content] = events[-1]["response"]["output"][0]["content"]
    expected = [("H", -2.0, [72]), ("é", -1.0, [195, 169])]
    assert [(t["token"], t["logprob"], t["bytes"]) for t in content["logprobs"]] == expected
    [told] = [event for event in events if event["type"] == "response.output_text.delta"]
    assert told["logprobs"] == content["logprobs"]
    calls = [piece(0, "{}", "c", "f")]
    events = stream(delta(calls=calls, logprobs=[logprob(b"{")], finish="TOOL_CALLS"), tools=TOOLS)
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["function_call"]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [(429, "client_stalled", "rate_limit_exceeded"), (500, None, "server_error")],
)
def test_an_error_ends_the_stream_with_what_there_was(status, code, expected):
    """The error has the words of all errors, the failed response those of its API."""
    made = response_events()
    made.opening(0)
    made.chunks(0, pb.GenerateResponse(deltas=[delta("He")]))
    error, failed = decoded(made.failure(ApiError(status, "No.", type="t", code=code, param="n")))
    number = error.pop("sequence_number")
    assert error == {"type": "error", "code": code or "t", "message": "No.", "param": "n"}
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", number + 1)
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": expected, "message": "No."}
    [item] = failed["response"]["output"]
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "He")
