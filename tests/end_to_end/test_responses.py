"""The default model answers OpenAI's Responses API, read by OpenAI's library."""

from __future__ import annotations

import json
from typing import Literal

import openai
import pytest
from pydantic import BaseModel

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."
ASKED = {"model": "", "input": QUESTION, "temperature": 0}
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Tell the weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Colour(BaseModel):
    colour: Literal["red", "green", "blue"]


@pytest.fixture
def client(stack):
    return openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key="unused", max_retries=0)


async def test_a_question_is_answered(client, stack):
    """Whole and in pieces, with the same words."""
    async with client:
        whole = await client.responses.create(**ASKED)
        async with client.responses.stream(**ASKED) as stream:
            deltas = [e.delta async for e in stream if e.type == "response.output_text.delta"]
            streamed = await stream.get_final_response()
    assert (whole.output_text, whole.status) == (ANSWER, "completed")
    assert (streamed.output_text, len(deltas) > 1) == (ANSWER, True)
    assert "".join(deltas) == ANSWER
    assert whole.usage.output_tokens == streamed.usage.output_tokens
    await stack.all_returned()


async def test_a_model_of_pydantic_is_filled_in(client, stack):
    """The schema that the library makes of it is followed."""
    async with client:
        asked = ASKED | {"input": "What colour is grass?", "text_format": Colour}
        response = await client.responses.parse(**asked)
    assert response.output_parsed.colour in ("red", "green", "blue")
    await stack.all_returned()


async def test_a_tool_is_called_and_its_result_is_read(client, stack):
    """Both turns of a conversation that the client keeps."""
    question = {"role": "user", "content": "What is the weather in Paris?"}
    asked = ASKED | {"tools": [WEATHER]}
    async with client:
        first = await client.responses.create(
            **asked | {"input": [question], "tool_choice": "required"}, parallel_tool_calls=False
        )
        [call] = first.output
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "4 degrees"}
        conversation = [question, call, result]
        second = await client.responses.create(
            **asked | {"input": conversation, "tool_choice": "none", "max_output_tokens": 40}
        )
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    assert second.output_text
    await stack.all_returned()


async def test_an_answer_that_is_cut_is_incomplete(client, stack):
    """In a stream, too, which ends with another event."""
    asked = ASKED | {"max_output_tokens": 3}
    async with client:
        whole = await client.responses.create(**asked)
        last = [event async for event in await client.responses.create(**asked, stream=True)][-1]
    assert last.type == "response.incomplete"
    assert whole.incomplete_details.reason == last.response.incomplete_details.reason
    assert last.response.output_text == whole.output_text != ""
    assert ANSWER.startswith(whole.output_text)
    await stack.all_returned()
