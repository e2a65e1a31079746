"""LiteLLM before a running service: answers, streams, tools and errors."""

import json
import os

import litellm
import pytest

SERVICE_URL, MODEL = os.environ["SERVICE_URL"], os.environ["MODEL"]
ASKED = {
    "model": f"openai/{MODEL}",
    "api_base": f"{SERVICE_URL}/v1",
    "api_key": "unused",
    "messages": [{"role": "user", "content": "Hey"}],
    "max_tokens": 400,
    "seed": 4,
    "num_retries": 0,
}
SHORT = ASKED | {"max_tokens": 20}
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "green"]}, "is_matt": {"type": "boolean"}},
    "required": ["colour", "is_matt"],
    "additionalProperties": False,
}
MIX = {"type": "function", "function": {"name": "mix", "parameters": SCHEMA}}


def check(text):
    value = json.loads(text)
    assert value["colour"] in ("red", "green")
    assert isinstance(value["is_matt"], bool)


def test_a_stream_joins_to_the_whole_answer():
    """With the same counts."""
    whole = litellm.completion(**SHORT)
    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(litellm.completion(**SHORT, **options))
    joined = litellm.stream_chunk_builder(chunks)
    assert joined.choices[0].message.content == whole.choices[0].message.content
    assert joined.usage.completion_tokens == whole.usage.completion_tokens == 20
    assert whole.choices[0].finish_reason == "length"


async def test_async_answers():
    """The async call has the same text."""
    answer = await litellm.acompletion(**SHORT)
    assert answer.choices[0].message.content == (
        litellm.completion(**SHORT).choices[0].message.content
    )


def test_an_answer_in_a_form():
    """A schema is kept to."""
    form = {"type": "json_schema", "json_schema": {"name": "paint", "schema": SCHEMA}}
    check(litellm.completion(**ASKED, response_format=form).choices[0].message.content)


def test_tools():
    """A forced call has arguments of its schema."""
    asked = ASKED | {"tools": [MIX], "tool_choice": "required", "parallel_tool_calls": False}
    [call] = litellm.completion(**asked).choices[0].message.tool_calls
    assert call.function.name == "mix"
    check(call.function.arguments)


@pytest.mark.parametrize(
    ("fields", "error_class", "words"),
    [
        ({"temperature": 3}, litellm.BadRequestError, "temperature"),
        ({"model": "openai/gpt-none"}, litellm.NotFoundError, "gpt-none"),
    ],
)
def test_errors_have_their_classes(fields, error_class, words):
    """And the words of the service."""
    with pytest.raises(error_class, match=words):
        litellm.completion(**ASKED | fields)
