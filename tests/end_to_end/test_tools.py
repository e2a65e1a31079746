"""The default model calls tools because it must, with arguments that fit all kinds of schemas."""

from __future__ import annotations

import asyncio
import json

import jsonschema
import pytest

from tests.end_to_end.tool_schemas import SCHEMAS
from tests.gateway.conftest import events_of

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

NUM_GROUPS = 4  # each is a test of its own, so that none takes long on a slow machine
GROUP_SECONDS = 600
GROUPS = [list(SCHEMAS)[group::NUM_GROUPS] for group in range(NUM_GROUPS)]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name, schema):
    function = {"name": name, "description": "Do what the user asks.", "parameters": schema}
    return {"type": "function", "function": function}


def asked(name, **fields):
    """A request that must call a tool with one of the schemas."""
    named = {"type": "function", "function": {"name": name}}
    return {
        "messages": [{"role": "user", "content": "Please do it."}],
        "tools": [tool(name, SCHEMAS[name])],
        "tool_choice": named,
        "max_tokens": 400,
        "seed": 7,
    } | fields


async def whole(http, body):
    """Return the only call of a blocking answer, and why it ended."""
    async with http.post("/v1/chat/completions", json=body) as response:
        [choice] = (await response.json())["choices"]
    [call] = choice["message"]["tool_calls"]
    assert choice["message"]["content"] is None
    return call["function"]["name"], call["function"]["arguments"], choice["finish_reason"]


async def streamed(http, body):
    """Return the same of a stream, joined."""
    async with http.post("/v1/chat/completions", json=body | {"stream": True}) as response:
        *chunks, done = events_of(await response.text())
    assert done == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks]
    pieces = [p for choice in choices for p in choice["delta"].get("tool_calls", ())]
    assert [piece["index"] for piece in pieces] == [0] * len(pieces)
    assert [piece["function"].get("name") for piece in pieces[1:]] == [None] * (len(pieces) - 1)
    arguments = "".join(piece["function"]["arguments"] for piece in pieces)
    return pieces[0]["function"]["name"], arguments, choices[-1]["finish_reason"]


@pytest.mark.timeout(GROUP_SECONDS)
@pytest.mark.parametrize("group", range(NUM_GROUPS))
async def test_forced_arguments_fit_their_schemas(stack, group):
    """The likeliest ones and drawn ones, whole and in a stream, which are the same."""
    async with stack.open_http() as http, asyncio.timeout(GROUP_SECONDS):
        names = GROUPS[group]
        calls = [
            read(http, asked(name, temperature=temperature))
            for name in names
            for temperature, read in ((0, whole), (1, whole), (1, streamed))
        ]
        answers = await asyncio.gather(*calls)
    for index, name in enumerate(names):
        likeliest, drawn, drawn_in_pieces = answers[3 * index : 3 * index + 3]
        for called, arguments, reason in (likeliest, drawn):
            assert (called, reason) == (name, "tool_calls")
            jsonschema.validate(json.loads(arguments), SCHEMAS[name])
        assert drawn == drawn_in_pieces
    await stack.all_returned()


async def test_the_model_fills_in_what_it_was_asked(stack):
    """The arguments are those of the question; of two tools it takes the one that fits."""
    body = {
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "tools": [tool("get_weather", CITY)],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0,
    }
    async with stack.open_http() as http:
        name, arguments, reason = await whole(http, body)
    assert (name, json.loads(arguments)) == ("get_weather", {"city": "Paris"})
    assert reason == "tool_calls"
    await stack.all_returned()


async def test_an_answer_by_choice_keeps_its_shape(stack):
    """The default model may answer in words; what it says is text or calls, and all of it."""
    body = {
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "tools": [tool("get_weather", CITY)],
        "temperature": 0,
        "max_tokens": 40,
    }
    async with stack.open_http() as http, http.post("/v1/chat/completions", json=body) as response:
        [choice] = (await response.json())["choices"]
    calls = choice["message"].get("tool_calls", [])
    assert choice["message"]["content"] or calls
    assert (choice["finish_reason"] == "tool_calls") <= bool(calls)
    await stack.all_returned()
