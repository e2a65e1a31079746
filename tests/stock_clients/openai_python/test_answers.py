"""What openai-python makes of answers: its models, its helpers and its raw responses."""

from enum import StrEnum

import openai
import pytest
from pydantic import BaseModel, Field

from tests.gateway.service import MODEL

MESSAGES = [{"role": "user", "content": "Hey"}]
ASKED = {"model": MODEL, "messages": MESSAGES, "max_tokens": 500, "seed": 2}


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


class Paint(BaseModel):
    """A paint."""

    colour: Colour
    litres: int = Field(ge=1, le=9)
    names: list[str] = Field(max_length=2)


class MixPaint(BaseModel):
    """Mixes a paint."""

    colour: Colour
    is_matt: bool


@pytest.fixture
def client(service):
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture
async def async_client(service):
    async with openai.AsyncOpenAI(
        base_url=f"{service.url}/v1", api_key="unused", max_retries=0
    ) as client:
        yield client


def test_an_answer_is_parsed_into_a_model(client):
    """A class of pydantic is the form, and its object the answer."""
    [choice] = client.chat.completions.parse(**ASKED, response_format=Paint).choices
    assert isinstance(choice.message.parsed, Paint)
    assert Paint.model_validate_json(choice.message.content) == choice.message.parsed
    assert choice.finish_reason == "stop"


async def test_an_answer_is_parsed_by_the_async_client(async_client):
    """It is the same object as the other client's."""
    answer = await async_client.chat.completions.parse(**ASKED, response_format=Paint)
    assert isinstance(answer.choices[0].message.parsed, Paint)


def test_an_answer_that_is_cut_is_not_parsed(client):
    """The library finds the reason that tells that the form has no end."""
    asked = ASKED | {"max_tokens": 3}
    with pytest.raises(openai.LengthFinishReasonError) as cut:
        client.chat.completions.parse(**asked, response_format=Paint)
    assert cut.value.completion.usage.completion_tokens == 3


def test_a_parsed_answer_streams(client):
    """The helper's events hold snapshots of the text, and its end the object."""
    with client.chat.completions.stream(**ASKED, response_format=Paint) as stream:
        events = list(stream)
        [choice] = stream.get_final_completion().choices
    text = "".join(event.delta for event in events if event.type == "content.delta")
    assert text == choice.message.content
    assert isinstance(choice.message.parsed, Paint)
    assert [event.parsed for event in events if event.type == "content.done"] == [
        choice.message.parsed
    ]


def test_arguments_of_a_call_are_parsed_into_a_model(client):
    """A class of pydantic is the tool, and its object the arguments."""
    tool = openai.pydantic_function_tool(MixPaint)
    asked = ASKED | {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
    [whole] = client.chat.completions.parse(**asked).choices[0].message.tool_calls
    assert whole.function.name == "MixPaint"
    assert isinstance(whole.function.parsed_arguments, MixPaint)
    with client.chat.completions.stream(**asked) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        [streamed] = stream.get_final_completion().choices[0].message.tool_calls
    assert [event.name for event in done] == ["MixPaint"]
    assert streamed.function.parsed_arguments == whole.function.parsed_arguments


def test_raw_responses_have_the_headers(client):
    """What the library hides of a response is there: id, time and type."""
    raw = client.chat.completions.with_raw_response.create(
        **ASKED | {"max_tokens": 2}, extra_headers={"x-request-id": "mine"}
    )
    assert raw.status_code == 200
    assert raw.headers["x-request-id"] == raw.request_id == "mine"
    assert float(raw.headers["openai-processing-ms"]) >= 0
    assert raw.headers["content-type"].startswith("application/json")
    answer = raw.parse()
    assert answer.usage.completion_tokens == 2
    assert answer._request_id == "mine"


def test_a_raw_stream_has_its_headers_before_its_text(client):
    """The response can be read line by line, as it comes over the wire."""
    with client.chat.completions.with_streaming_response.create(
        **ASKED | {"max_tokens": 2}, stream=True
    ) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-request-id"].startswith("req_")
        lines = [line for line in response.iter_lines() if line]
    assert {line[:6] for line in lines} == {"data: "}
    assert lines[-1] == "data: [DONE]"


async def test_the_async_client_streams_what_the_other_gets(client, async_client):
    """With a seed both have the same text."""
    whole = client.chat.completions.create(**ASKED | {"max_tokens": 30})
    stream = await async_client.chat.completions.create(**ASKED | {"max_tokens": 30}, stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
    assert text == whole.choices[0].message.content
    assert [model.id async for model in async_client.models.list()] == [MODEL]
