"""Tools in chats over HTTP: how they are read, and the shapes of calls in answers."""

import json

import msgspec
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import logprobs_pb2, stopping_pb2, tool_pb2
from headrace_gateway.openai.answer import Identity, TokenCounts, join_responses
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.chat_request import parse_chat_request
from headrace_gateway.openai.chat_response import ChatChunks, chat_completion

IDENTITY = Identity("id-1", 1700000000, "tiny")
MESSAGES = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"é": {"type": "number", "maximum": 1.5}}}
F = {"type": "function", "function": {"name": "f", "description": "d", "parameters": SCHEMA}}
G = {"function": {"name": "g", "description": None, "parameters": None, "strict": True}}


def chat_of(**fields):
    return parse_chat_request({"messages": MESSAGES, **fields}).to_generate_request().chat


def test_tools_become_those_of_the_contract():
    """Schemas go on as JSON text; what is null was not given."""
    chat = chat_of(
        tools=[F, G], parallel_tool_calls=False, chat_template_kwargs={"enable_thinking": False}
    )
    f, g = chat.tools
    assert (f.name, f.description, json.loads(f.parameters_json)) == ("f", "d", SCHEMA)
    assert g == tool_pb2.Tool(name="g")
    assert (chat.HasField("parallel_tool_calls"), chat.parallel_tool_calls) == (True, False)
    assert json.loads(chat.template_arguments_json) == {"enable_thinking": False}
    assert chat_of(chat_template_kwargs={}).template_arguments_json == ""


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"mode": tool_pb2.TOOL_CHOICE_MODE_AUTO}),
        ("none", {"mode": tool_pb2.TOOL_CHOICE_MODE_NONE}),
        ("required", {"mode": tool_pb2.TOOL_CHOICE_MODE_REQUIRED}),
        ({"type": "function", "function": {"name": "f"}}, {"tool_name": "f"}),
    ],
)
def test_every_choice_of_openai_is_known(choice, expected):
    """Which tools there are is the server's to know."""
    assert chat_of(tool_choice=choice).tool_choice == tool_pb2.ToolChoice(**expected)
    assert not chat_of(tools=[F]).HasField("tool_choice")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"tools": {}}, "tools", "tools must be a list of tools."),
        ({"tools": ["f"]}, "tools[0]", "tools[0] must be an object with type and function."),
        ({"tools": [F, {"type": "web_search"}]}, "tools[1]", "tools[1].type must be function."),
        ({"tools": [{}]}, "tools[0].function", "must be an object with a name."),
        ({"tools": [{"function": {}}]}, "tools[0].function.name", "must be a string."),
        (
            {"tools": [{"function": {"name": "f", "parameters": "{}"}}]},
            "tools[0].function.parameters",
            "must be a JSON schema as an object.",
        ),
        (
            {"tools": [{"function": {"name": "f", "parameters": {"a": float("nan")}}}]},
            "tools[0].function.parameters",
            "holds a number that JSON does not have.",
        ),
        (
            {"tools": [{"function": {"name": "f", "strict": "yes"}}]},
            "tools[0].function.strict",
            "must be true or false.",
        ),
        ({"tool_choice": "f"}, "tool_choice", "must be auto, none, required or a function"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice", "must be auto, none, requ"),
        ({"tool_choice": {"function": {}}}, "tool_choice.function.name", "must be a string."),
        ({"functions": [{"name": "f"}]}, "functions", "functions is not supported; leave it out."),
        ({"function_call": {"name": "f"}}, "function_call", "is not supported; leave it out."),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls", "must be true or false."),
        ({"chat_template_kwargs": []}, "chat_template_kwargs", "must be an object."),
    ],
)
def test_what_is_malformed_is_refused_by_its_path(fields, param, words):
    """Also the older names for tools, which are not read."""
    with pytest.raises(ApiError) as refusal:
        chat_of(**fields)
    assert (refusal.value.status, refusal.value.param) == (400, param)
    assert words in refusal.value.message


def delta(*calls, index=0, reason=None, **fields):
    pieces = [tool_pb2.ToolCallDelta(**call) for call in calls]
    message = pb.CandidateDelta(candidate_index=index, tool_calls=pieces, **fields)
    if reason is not None:
        message.finish.reason = reason
    return pb.GenerateResponse(deltas=[message])


RESPONSES = [
    delta(reasoning_text="hm"),
    delta(reasoning_text="…", text="I look."),
    delta({"id": "c0", "name": "f", "arguments_json": '{"a'}),
    delta({"arguments_json": '": 1}'}, {"index": 1, "id": "c1", "name": "g"}),
    delta({"index": 1, "arguments_json": "{}"}, reason=stopping_pb2.FINISH_REASON_TOOL_CALLS),
]


def as_json(value):
    return json.loads(msgspec.json.encode(value))


def test_a_whole_answer_with_calls():
    """Calls stand beside content and reasoning, which has both of its names."""
    [choice] = as_json(chat_completion(IDENTITY, join_responses(RESPONSES, 1)))["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": "I look.",
        "refusal": None,
        "reasoning_content": "hm…",
        "reasoning": "hm…",
        "tool_calls": [
            {"id": "c0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
            {"id": "c1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
        ],
    }
    assert choice["finish_reason"] == "tool_calls"


def test_an_answer_of_calls_alone_has_no_content():
    """Its content is null; that of an empty answer is not."""
    for responses, content in ((RESPONSES[2:], None), ([delta(text="")], "")):
        [choice] = as_json(chat_completion(IDENTITY, join_responses(responses, 1)))["choices"]
        assert choice["message"]["content"] == content
        assert ("tool_calls" in choice["message"]) == (content is None)


def test_a_streamed_answer_with_calls():
    """The first chunk of a call has its index, id, type and name, the others its arguments."""
    chunks = ChatChunks(IDENTITY, include_usage=False)
    events = as_json([chunk for each in RESPONSES for chunk in chunks.chunks(0, each)])
    choices = [event["choices"][0] for event in events]
    assert [choice["delta"] for choice in choices] == [
        {"reasoning_content": "hm", "reasoning": "hm"},
        {"reasoning_content": "…", "reasoning": "…"},
        {"content": "I look."},
        {"tool_calls": [_first(0, "c0", "f")]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '": 1}'}}]},
        {"tool_calls": [_first(1, "c1", "g")]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert [choice["finish_reason"] for choice in choices] == [None] * 8 + ["tool_calls"]


def test_log_probabilities_of_calls_are_told():
    """They come once, in a chunk with a content, which may be empty."""
    told = logprobs_pb2.TokenLogprobs(token_id=1, token_bytes=b"{", logprob=-1.0)
    call = {"id": "c0", "name": "f", "arguments_json": "{"}
    chunks = ChatChunks(IDENTITY, include_usage=False)
    events = as_json(chunks.chunks(0, delta(call, logprobs=[told])))
    told_by_delta = [
        (event["choices"][0]["delta"].get("content"), event["choices"][0]["logprobs"] is not None)
        for event in events
    ]
    assert told_by_delta == [("", True), (None, False), (None, False)]


def test_calls_of_several_answers_are_told_apart():
    """Each choice counts its own."""
    call = {"id": "c0", "name": "f", "arguments_json": "{}"}
    both = delta(call)
    both.deltas.append(delta(call | {"id": "c1"}, index=1).deltas[0])
    answer = join_responses([both], 2)
    assert [[c.id for c in candidate.tool_calls] for candidate in answer.candidates] == [
        ["c0"],
        ["c1"],
    ]
    assert answer.counts == TokenCounts()


def _first(index, call_id, name):
    function = {"arguments": "", "name": name}
    return {"index": index, "function": function, "id": call_id, "type": "function"}
