"""Anthropic's library before the simulated engine: blocking, streaming and async."""

import json

import anthropic
import jsonschema
import pytest

from tests.gateway.service import MODEL

MESSAGES = [{"role": "user", "content": "How is the weather in Paris?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 6}, "metric": {"type": "boolean"}},
    "required": ["city"],
}
TOOLS = [
    {"name": "get_weather", "description": "Tells.", "input_schema": SCHEMA},
    {"name": "now", "input_schema": {"type": "object", "properties": {}}},
]
# The likeliest tokens, so that the same request has the same answer.
ASKED = {"model": MODEL, "messages": MESSAGES, "extra_body": {"temperature": 0}}
ASKED_OF_TOOLS = ASKED | {"tools": TOOLS, "max_tokens": 2000}
REQUESTS = {
    "words": ASKED | {"max_tokens": 60},
    "nothing": ASKED | {"max_tokens": 0},
    "system": ASKED | {"max_tokens": 60, "system": "Be brief."},
    "stops": ASKED | {"max_tokens": 400, "stop_sequences": ["q", "e", "é"]},
    "any tool": ASKED_OF_TOOLS | {"tool_choice": {"type": "any"}},
    "one call": ASKED_OF_TOOLS
    | {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}},
    "a tool": ASKED_OF_TOOLS | {"tool_choice": {"type": "tool", "name": "get_weather"}},
    "a tool that is cut": ASKED_OF_TOOLS
    | {"tool_choice": {"type": "tool", "name": "get_weather"}, "max_tokens": 40},
    "tools by choice": ASKED_OF_TOOLS | {"max_tokens": 60},
    "no tool": ASKED_OF_TOOLS | {"tool_choice": {"type": "none"}, "max_tokens": 60},
    "begun": ASKED
    | {"messages": [*MESSAGES, {"role": "assistant", "content": "It is"}], "max_tokens": 30},
}


@pytest.fixture
def client(service):
    with anthropic.Anthropic(base_url=service.url, api_key="unused", max_retries=0) as client:
        yield client


def content_of(message):
    """Return the blocks without the ids of calls, which are unique for ever."""
    return [block.model_dump(exclude={"id"}, exclude_none=True) for block in message.content]


def size_of_prompt(usage):
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens


@pytest.mark.parametrize("name", REQUESTS)
def test_a_stream_joins_to_the_whole_answer(client, name):
    """The library accumulates what a blocking caller gets, and the end of it."""
    asked = REQUESTS[name]
    whole = client.messages.create(**asked)
    with client.messages.stream(**asked) as stream:
        joined = stream.get_final_message()
    assert content_of(joined) == content_of(whole)
    assert (joined.stop_reason, joined.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert joined.usage.output_tokens == whole.usage.output_tokens
    assert size_of_prompt(joined.usage) == size_of_prompt(whole.usage)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_tokens_of_a_request_are_counted_exactly(client, name):
    """Before an answer they are as many as after it."""
    asked = {key: value for key, value in REQUESTS[name].items() if key != "stop_sequences"}
    count = client.messages.count_tokens(
        **{key: value for key, value in asked.items() if key not in ("max_tokens", "extra_body")}
    )
    assert count.input_tokens == size_of_prompt(client.messages.create(**asked).usage)


def test_each_end_has_its_reason(client):
    """The library sees why an answer has ended, and at which stop."""
    ends = {name: client.messages.create(**REQUESTS[name]) for name in REQUESTS}
    reasons = {name: message.stop_reason for name, message in ends.items()}
    assert reasons["words"] == reasons["a tool that is cut"] == reasons["nothing"] == "max_tokens"
    assert reasons["stops"] == "stop_sequence"
    assert ends["stops"].stop_sequence in ("q", "e", "é")
    assert ends["stops"].stop_sequence not in "".join(b.text for b in ends["stops"].content)
    assert reasons["any tool"] == reasons["one call"] == reasons["a tool"] == "tool_use"
    assert ends["nothing"].content == []


def test_calls_fit_their_schemas_and_their_results_go_back(client):
    """The blocks of an answer are sent back as they are, with a result for each call."""
    answer = client.messages.create(**REQUESTS["any tool"])
    schemas = {tool["name"]: tool["input_schema"] for tool in TOOLS}
    calls = [block for block in answer.content if block.type == "tool_use"]
    assert len({call.id for call in calls}) == len(calls) == len(answer.content) > 0
    for call in calls:
        jsonschema.validate(call.input, schemas[call.name])
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": "4 degrees"} for call in calls
    ]
    turns = [
        *MESSAGES,
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [*results, {"type": "text", "text": "Well?"}]},
    ]
    again = client.messages.create(**ASKED_OF_TOOLS | {"messages": turns, "max_tokens": 5})
    assert again.role == "assistant"
    assert size_of_prompt(again.usage) > size_of_prompt(answer.usage)


def test_the_events_of_a_stream_are_those_of_the_library(client):
    """Each block is opened, filled and closed in its turn."""
    events = list(client.messages.create(**REQUESTS["any tool"], stream=True))
    assert events[0].type == "message_start"
    assert [event.type for event in events[-2:]] == ["message_delta", "message_stop"]
    open_index, num_blocks, inputs = None, 0, []
    for event in events[1:-2]:
        match event.type:
            case "content_block_start":
                assert (open_index, event.index) == (None, num_blocks)
                assert (event.content_block.type, event.content_block.input) == ("tool_use", {})
                open_index, num_blocks = event.index, num_blocks + 1
                inputs.append("")
            case "content_block_delta":
                assert (event.index, event.delta.type) == (open_index, "input_json_delta")
                inputs[-1] += event.delta.partial_json
            case "content_block_stop":
                assert event.index == open_index
                open_index = None
    whole = client.messages.create(**REQUESTS["any tool"])
    assert [json.loads(text) for text in inputs] == [block.input for block in whole.content]


def test_an_answer_in_a_form(client):
    """A schema is kept to."""
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}},
        "required": ["colour"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "schema": schema}}
    answer = client.messages.create(**ASKED, max_tokens=200, output_config=form)
    jsonschema.validate(json.loads(answer.content[0].text), schema)


def test_a_prompt_that_was_seen_is_read_from_the_cache(client):
    """The second time most of its tokens are counted there."""
    asked = ASKED | {"max_tokens": 2}
    asked["messages"] = [{"role": "user", "content": "words that only this test says " * 10}]
    first, second = (client.messages.create(**asked).usage for _ in range(2))
    assert first.cache_read_input_tokens < second.cache_read_input_tokens
    assert second.cache_read_input_tokens > second.input_tokens
    assert size_of_prompt(first) == size_of_prompt(second)


async def test_async_answers(service):
    """The async client streams as well, and leaving its stream early is fine."""
    async with anthropic.AsyncAnthropic(base_url=service.url, api_key="unused") as client:
        async with client.messages.stream(**ASKED, max_tokens=8000) as stream:
            async for text in stream.text_stream:
                assert text
                break
        answer = await client.messages.create(**ASKED, max_tokens=2)
    assert answer.usage.output_tokens == 2


@pytest.mark.parametrize(
    ("fields", "error", "kind", "words"),
    [
        (
            {"extra_body": {"temperature": 3}},
            anthropic.BadRequestError,
            "invalid_request_error",
            "temperature must be from 0 to 2.",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]},
            anthropic.BadRequestError,
            "invalid_request_error",
            "messages[0].content[0] has the type image",
        ),
        (
            {"tools": [*TOOLS, TOOLS[0]]},
            anthropic.BadRequestError,
            "invalid_request_error",
            "tools[2].name must differ",
        ),
        (
            {"tools": [TOOLS[0] | {"input_schema": {"not": {}}}], "tool_choice": {"type": "any"}},
            anthropic.BadRequestError,
            "invalid_request_error",
            'Tool "get_weather": The JSON schema uses "not" at #',
        ),
        ({"model": "claude"}, anthropic.NotFoundError, "not_found_error", "is not served here"),
        (
            {"system": "a" * 2**23},
            anthropic.APIStatusError,
            "request_too_large",
            "The body is larger than",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_errors_have_their_classes(client, fields, error, kind, words, stream):
    """Each status is the exception that users of the library catch, with the id of the log."""
    with pytest.raises(error) as refusal:
        client.messages.create(**ASKED | {"max_tokens": 5} | fields, stream=stream)
    assert refusal.value.type == kind
    assert words in refusal.value.body["error"]["message"]
    assert refusal.value.request_id == refusal.value.body["request_id"]
