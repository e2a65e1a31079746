"""Asks for what a schema describes, as a form and as arguments, and reads it both ways."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jsonschema

from tests.gateway.conftest import events_of

if TYPE_CHECKING:
    import aiohttp

    from tests.gateway.schemas.tables import Followed

CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Please answer."}]
TOOL = "answer"
# The longest that any of the schemas asks for, in bytes, with room for what it leaves open.
MAX_TOKENS = 6000


@dataclass(frozen=True, slots=True)
class Answer:
    """The JSON of an answer, and why it ended."""

    text: str
    finish_reason: str


def as_form(schema: dict[str, Any]) -> dict[str, Any]:
    wrapper = {"name": TOOL, "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": wrapper}}


def as_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    function = {"name": TOOL, "strict": True, "parameters": schema}
    return {
        "tools": [{"type": "function", "function": function}],
        "tool_choice": {"type": "function", "function": {"name": TOOL}},
    }


def asked(name: str, wish: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of a chat; equal names have equal seeds, on each machine."""
    seed = zlib.crc32(name.encode())
    sampling = {"temperature": 1, "seed": seed, "max_tokens": MAX_TOKENS}
    return {"messages": MESSAGES} | sampling | wish | fields


async def read_whole(http: aiohttp.ClientSession, body: dict[str, Any]) -> Answer:
    async with http.post(CHAT, json=body) as response:
        assert response.status == 200, (body, await response.text())
        [choice] = (await response.json())["choices"]
    message = choice["message"]
    if "tool_calls" not in message:
        return Answer(message["content"], choice["finish_reason"])
    [call] = message["tool_calls"]
    assert (call["function"]["name"], message["content"]) == (TOOL, None)
    return Answer(call["function"]["arguments"], choice["finish_reason"])


async def read_stream(http: aiohttp.ClientSession, body: dict[str, Any]) -> Answer:
    async with http.post(CHAT, json=body | {"stream": True}) as response:
        assert response.status == 200, (body, await response.text())
        *chunks, done = events_of(await response.text())
    assert done == "[DONE]"
    choices = [chunk["choices"][0] for chunk in chunks]
    deltas = [choice["delta"] for choice in choices]
    arguments = [p["function"]["arguments"] for d in deltas for p in d.get("tool_calls", ())]
    content = [delta["content"] for delta in deltas if delta.get("content")]
    assert not (arguments and content)
    return Answer("".join(arguments or content), choices[-1]["finish_reason"])


async def check_both(http: aiohttp.ClientSession, followed: Followed, **fields: Any) -> None:
    """Check the answer and the arguments of a schema: sound, and the same in a stream."""
    wishes = (
        (followed.schema, as_form, "stop"),
        (followed.arguments, as_arguments, "tool_calls"),
    )
    for schema, wish, reason in wishes:
        body = asked(followed.name, wish(schema), **fields)
        whole = await read_whole(http, body)
        assert whole.finish_reason == reason, (followed.name, whole)
        check(followed.name, whole.text, schema)
        assert await read_stream(http, body) == whole, followed.name


def check(name: str, text: str, schema: dict[str, Any]) -> None:
    """Check a text against a schema as the library for that does, whose words tell of it."""
    validator = jsonschema.validators.validator_for(
        schema, default=jsonschema.Draft202012Validator
    )(schema, format_checker=validator_formats())
    problems = [error.message for error in validator.iter_errors(json.loads(text))]
    assert problems == [], (name, text)


def validator_formats() -> jsonschema.FormatChecker:
    return jsonschema.Draft202012Validator.FORMAT_CHECKER
