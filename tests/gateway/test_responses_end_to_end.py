"""Responses with OpenAI's library, before the simulated engine."""

import json
import uuid
from typing import Literal

import jsonschema
import openai
import pytest
from pydantic import BaseModel

from tests.gateway.service import MODEL

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 6}, "metric": {"type": "boolean"}},
    "required": ["city"],
}
WEATHER = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}
NOW = {"type": "function", "name": "now", "parameters": None, "strict": None}
ASKED = {"model": MODEL, "input": "How is the weather in Paris?", "max_output_tokens": 50}
SEED = {"seed": 4}
LOGPROBS = "message.output_text.logprobs"
# What differs between two answers to the same request.
NEW_EACH_TIME = {"id", "call_id", "created_at"}


class Thing(BaseModel):
    colour: Literal["red", "green"]
    number: Literal[1, 2]


@pytest.fixture
def client(service):
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def lasting(value):
    """Return a response, or a part of it, without what is new each time."""
    if isinstance(value, dict):
        return {key: lasting(item) for key, item in value.items() if key not in NEW_EACH_TIME}
    return [lasting(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"instructions": "Be brief.", "metadata": {"a": "b"}, "temperature": 0},
        {"include": [LOGPROBS], "top_logprobs": 2},
        {"text": {"format": {"type": "json_object"}}, "max_output_tokens": 300},
        {"tools": [WEATHER, NOW], "tool_choice": "auto"},
        {"tools": [WEATHER, NOW], "tool_choice": "required", "max_output_tokens": 2000},
        {"tools": [WEATHER], "tool_choice": {"type": "function", "name": "get_weather"}},
    ],
)
def test_a_stream_is_the_blocking_answer(client, fields):
    """Its last event, its finished items and its joined pieces are all the same."""
    asked = ASKED | fields
    # The cache of prompts would make a difference between the two.
    salts = [SEED | {"cache_salt": uuid.uuid4().hex} for _ in range(2)]
    whole = client.responses.create(**asked, extra_body=salts[0]).to_dict()
    events = [
        e.to_dict() for e in client.responses.create(**asked, stream=True, extra_body=salts[1])
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1]
    assert last["type"] == f"response.{whole['status']}"
    assert lasting(last["response"]) == lasting(whole)
    output = last["response"]["output"]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == output
    for index, item in enumerate(output):
        pieces = [e["delta"] for e in events if "delta" in e and e["output_index"] == index]
        text = item["arguments"] if "arguments" in item else item["content"][0]["text"]
        assert "".join(pieces) == text


def test_a_response_has_what_the_library_knows(client):
    """The text in one string, counts, and what was set."""
    response = client.responses.create(**ASKED, instructions="Be brief.", extra_body=SEED)
    assert response.id.startswith("resp_")
    assert response.output_text == response.output[0].content[0].text != ""
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.usage.output_tokens == response.max_output_tokens == 50
    assert response.usage.total_tokens == response.usage.input_tokens + 50
    assert (response.model, response.instructions) == (MODEL, "Be brief.")
    assert not response.store


def test_log_probabilities_are_those_of_the_text(client):
    """Their bytes are the text, and beside each are as many rivals as were asked for."""
    response = client.responses.create(**ASKED, include=[LOGPROBS], top_logprobs=2)
    [content] = response.output[0].content
    text = b"".join(bytes(each.bytes) for each in content.logprobs).decode("utf-8", "replace")
    assert text == content.text
    assert all(each.logprob <= 0 and len(each.top_logprobs) == 2 for each in content.logprobs)


def test_a_model_of_pydantic_is_filled_in(client):
    """The library's parse asks for a schema, blocking and in a stream."""
    asked = ASKED | {"max_output_tokens": 200, "text_format": Thing}
    assert isinstance(client.responses.parse(**asked).output_parsed, Thing)
    with client.responses.stream(**asked) as stream:
        kinds = [event.type for event in stream]
        assert isinstance(stream.get_final_response().output_parsed, Thing)
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


def test_a_turn_with_a_call_goes_on(client):
    """What was answered is the input of the next turn, with the result of the call."""
    tools = {"tools": [WEATHER, NOW], "parallel_tool_calls": False}
    asked = ASKED | tools | {"max_output_tokens": 2000}
    first = client.responses.create(**asked, tool_choice="required", extra_body=SEED)
    [call] = first.output
    jsonschema.validate(
        json.loads(call.arguments), SCHEMA if call.name == "get_weather" else {"maxProperties": 0}
    )
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "4 degrees"}
    conversation = [{"role": "user", "content": ASKED["input"]}, *first.output, result]
    second = client.responses.create(**asked | {"input": conversation, "max_output_tokens": 5})
    assert second.output[0].type in ("message", "function_call")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the items"),
        ({"background": True}, "background", "nothing is stored"),
        ({"temperature": 3}, "temperature", "temperature must be"),
        ({"input": []}, "input", "at least one"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web_search"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice", "must not require calls"),
        ({"tools": [WEATHER | {"name": "a b"}]}, "tools", "tools[0].name"),
        (
            {"tools": [WEATHER], "text": {"format": {"type": "json_object"}}},
            "text",
            "tool_choice is none",
        ),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"not": {}}}}},
            "text",
            '"not"',
        ),
        (
            {"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{"}]},
            "input",
            "input[0].arguments must be a JSON object",
        ),
        ({"input": "word " * 20_000}, "input", "context"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_its_field(client, fields, param, words):
    """Before a stream begins, in the shape that the library knows."""
    with pytest.raises(openai.BadRequestError) as refusal:
        client.responses.create(**ASKED | fields, stream=True)
    assert (refusal.value.param, refusal.value.type) == (param, "invalid_request_error")
    assert words in refusal.value.message


def test_nothing_is_stored(client):
    """The library's errors say so."""
    for ask in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError, match="not stored"):
            ask("resp_1")
    with pytest.raises(openai.NotFoundError) as refusal:
        client.responses.create(**ASKED | {"model": "gpt-5"})
    assert (refusal.value.code, refusal.value.param) == ("model_not_found", "model")


async def test_the_async_client_streams(service):
    """Leaving its stream early is fine."""
    async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="unused") as client:
        stream = await client.responses.create(**ASKED | {"max_output_tokens": 8000}, stream=True)
        async with stream:
            async for event in stream:
                assert event.type == "response.created"
                break
        answer = await client.responses.create(**ASKED | {"max_output_tokens": 2})
    assert answer.usage.output_tokens == 2
