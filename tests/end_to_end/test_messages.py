"""The default model answers Anthropic's library."""

from __future__ import annotations

import anthropic
import httpx2
import pytest

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

BOUND_SECONDS = 120.0
WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather in a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
ASKED = {
    "model": "",  # the served one
    "max_tokens": 40,
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "extra_body": {"temperature": 0},
}
FORCED = ASKED | {
    "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
    "tools": [WEATHER],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "max_tokens": 200,
}
REQUESTS = {
    "words": ASKED,
    "a system": ASKED | {"system": "Answer in French."},
    "a stop": ASKED | {"stop_sequences": ["Paris"]},
    "cut": ASKED | {"max_tokens": 2},
    "begun": ASKED
    | {"messages": [*ASKED["messages"], {"role": "assistant", "content": "It is called"}]},
    "tools by choice": FORCED | {"tool_choice": {"type": "auto"}, "max_tokens": 60},
    "a call": FORCED,
}


def open_client(stack, **options):
    """Open a client whose connections end with their requests."""
    limits = httpx2.Limits(max_keepalive_connections=0)
    http = httpx2.AsyncClient(limits=limits, timeout=BOUND_SECONDS)
    return anthropic.AsyncAnthropic(
        base_url=stack.url, api_key="unused", max_retries=0, http_client=http, **options
    )


def content_of(message):
    """Return the blocks without the ids of calls, which are unique for ever."""
    return [block.model_dump(exclude={"id"}, exclude_none=True) for block in message.content]


def size_of_prompt(usage):
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_stream_joins_to_the_whole_answer_whose_prompt_was_counted(stack, name):
    """Words, stops and calls are the same both ways; the count is that of the answer."""
    asked = REQUESTS[name]
    counted = {k: v for k, v in asked.items() if k in ("model", "messages", "system")}
    counted |= {k: v for k, v in asked.items() if k in ("tools", "tool_choice")}
    async with open_client(stack) as client:
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            joined = await stream.get_final_message()
        count = await client.messages.count_tokens(**counted)
    assert content_of(joined) == content_of(whole) != []
    assert (joined.stop_reason, joined.stop_sequence) == (whole.stop_reason, whole.stop_sequence)
    assert count.input_tokens == size_of_prompt(whole.usage) == size_of_prompt(joined.usage)
    await stack.all_returned()


async def test_the_model_knows_and_stops(stack):
    """It answers the question, and a stop that comes is named and cut off."""
    async with open_client(stack) as client:
        answer = await client.messages.create(**REQUESTS["words"])
        stopped = await client.messages.create(**REQUESTS["a stop"])
        cut = await client.messages.create(**REQUESTS["cut"])
    assert "Paris" in answer.content[0].text
    assert answer.stop_reason == "end_turn"
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "Paris")
    assert stopped.content[0].text == answer.content[0].text.partition("Paris")[0]
    assert (cut.stop_reason, cut.usage.output_tokens) == ("max_tokens", 2)
    await stack.all_returned()


async def test_a_call_is_made_and_its_result_is_read(stack):
    """The model asks for what it was told of, and answers with what it learns."""
    async with open_client(stack) as client:
        answer = await client.messages.create(**FORCED)
        [call] = answer.content
        assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": "Paris"})
        assert answer.stop_reason == "tool_use"
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "4 degrees, rain"}
        turns = [
            *FORCED["messages"],
            {"role": "assistant", "content": answer.content},
            {"role": "user", "content": [result]},
        ]
        told = await client.messages.create(
            **FORCED | {"messages": turns, "tool_choice": {"type": "none"}, "max_tokens": 60}
        )
    assert [block.type for block in told.content] == ["text"]
    await stack.all_returned()


async def test_a_caller_who_leaves_a_stream_frees_the_engine(stack):
    """What nobody reads is not computed."""
    asked = ASKED | {"max_tokens": 2000}
    asked["messages"] = [{"role": "user", "content": "Count from one to a thousand."}]
    async with open_client(stack) as client, client.messages.stream(**asked) as stream:
        async for text in stream.text_stream:
            assert text
            break
    await stack.all_returned()


async def test_errors_are_the_exceptions_of_the_library(stack):
    """What is refused has its class and its words."""
    async with open_client(stack) as client:
        with pytest.raises(anthropic.NotFoundError) as refusal:
            await client.messages.create(**ASKED | {"model": "claude"})
        assert refusal.value.type == "not_found_error"
        long = [{"role": "user", "content": "word " * 20_000}]
        with pytest.raises(anthropic.BadRequestError) as refusal:
            await client.messages.create(**ASKED | {"messages": long})
        assert refusal.value.type == "invalid_request_error"
    await stack.all_returned()
