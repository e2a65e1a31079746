"""Tools with OpenAI's library, before the simulated engine."""

import json

import jsonschema
import openai
import pytest

from tests.gateway.service import MODEL

MESSAGES = [{"role": "user", "content": "How is the weather in Paris?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 6}, "metric": {"type": "boolean"}},
    "required": ["city"],
}
WEATHER = {"name": "get_weather", "description": "Tells.", "parameters": SCHEMA}
TOOLS = [
    {"type": "function", "function": WEATHER},
    {"type": "function", "function": {"name": "now"}},
]
ASKED = {"model": MODEL, "messages": MESSAGES, "tools": TOOLS, "max_tokens": 2000, "seed": 4}


@pytest.fixture
def client(service):
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def check_call(name, arguments):
    value = json.loads(arguments)
    jsonschema.validate(value, SCHEMA if name == "get_weather" else {"maxProperties": 0})


@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": TOOLS[0]["function"]}]
)
def test_forced_calls_stream_as_they_are_answered(client, choice):
    """Pieces join to the calls of the blocking answer: index, id and name once each."""
    asked = ASKED | {"tool_choice": choice}
    [whole] = client.chat.completions.create(**asked).choices
    assert (whole.finish_reason, whole.message.content) == ("tool_calls", None)
    expected = [(call.function.name, call.function.arguments) for call in whole.message.tool_calls]
    for name, arguments in expected:
        check_call(name, arguments)
    ids, joined, reasons = [], [], []
    for chunk in client.chat.completions.create(**asked, stream=True):
        [told] = chunk.choices
        reasons += [told.finish_reason] if told.finish_reason else []
        assert not told.delta.content
        for piece in told.delta.tool_calls or []:
            if piece.index == len(joined):
                assert (piece.type, piece.function.arguments) == ("function", "")
                ids.append(piece.id)
                joined.append((piece.function.name, ""))
            else:
                assert (piece.id, piece.type, piece.function.name) == (None, None, None)
                assert piece.function.arguments
                name, arguments = joined[piece.index]
                joined[piece.index] = (name, arguments + piece.function.arguments)
    assert joined == expected
    assert len(set(ids)) == len(joined)
    assert reasons == ["tool_calls"]


def test_the_library_accumulates_a_stream(client):
    """Its own helper makes the message that is sent back with the result."""
    with client.chat.completions.stream(
        **ASKED, tool_choice="required", parallel_tool_calls=False
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    [call] = message.tool_calls
    check_call(call.function.name, call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "4 degrees"}
    turn = message.model_dump(exclude_none=True)
    answer = client.chat.completions.create(
        **ASKED | {"messages": [*MESSAGES, turn, result], "max_tokens": 5}
    )
    assert answer.choices[0].message.role == "assistant"


def test_every_answer_of_several_has_its_calls(client):
    """Each choice is a call."""
    answer = client.chat.completions.create(
        **ASKED, tool_choice="required", parallel_tool_calls=False, n=3
    )
    calls = [call for choice in answer.choices for call in choice.message.tool_calls]
    assert len({call.id for call in calls}) == len(calls) == 3


def test_a_forced_call_that_is_cut_has_the_reason_length(client):
    """What there is of it is told."""
    named = {"type": "function", "function": {"name": "get_weather"}}
    answer = client.chat.completions.create(**ASKED | {"tool_choice": named, "max_tokens": 45})
    [choice] = answer.choices
    assert choice.finish_reason == "length"
    assert [call.function.name for call in choice.message.tool_calls] == ["get_weather"]


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"tools": [], "tool_choice": "required"}, "tool_choice", "must not require calls"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice", "one of"),
        ({"response_format": {"type": "json_object"}}, "response_format", "tool_choice is none"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"not": {}}}}],
             "tool_choice": "required"},
            "tools",
            'Tool "f": The JSON schema uses "not" at #',
        ),
        (
            {"tools": [*TOOLS, TOOLS[0]]},
            "tools",
            "tools[2].function.name must differ",
        ),
        (
            {"messages": [*MESSAGES, {"role": "assistant", "tool_calls": [
                {"function": {"name": "f", "arguments": "{"}}]}]},
            "messages",
            "messages[1].tool_calls[0].function.arguments must be a JSON object",
        ),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs", "must not set mess"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_its_field(client, fields, param, words):
    """Before a stream begins, in the words of the API."""
    known = {"chat_template_kwargs"} & fields.keys()
    extra = {name: fields[name] for name in known}
    asked = ASKED | {name: value for name, value in fields.items() if name not in known}
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(**asked, extra_body=extra, stream=True)
    assert refusal.value.param == param
    assert words in refusal.value.message


def test_a_chat_with_tools_is_turned_into_tokens(client):
    """The endpoint counts the tools, too."""
    with_tools, without = (
        client.post("/tokenize", body={"messages": MESSAGES, "tools": tools}, cast_to=object)
        for tools in (TOOLS, [])
    )
    assert with_tools["count"] > without["count"]
