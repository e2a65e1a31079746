"""Answers match their JSON schemas, of all kinds, and what cannot be followed is refused."""

import asyncio
import json

import aiohttp
import pytest

from tests.gateway.schemas.answers import (
    CHAT,
    as_arguments,
    as_form,
    asked,
    check_both,
)
from tests.gateway.schemas.tables import followed, refused

BOUND_SECONDS = 100.0
NUM_AT_ONCE = 8
FAMILIES = {schema.family: None for schema in followed()}
# The simulated model likes letters: without a push towards what ends a text, a list or an object
# it would fill whatever has no bound.
CLOSING = {str(ord(character)): 7 for character in '"}]'}


@pytest.fixture
async def session(service):
    timeout = aiohttp.ClientTimeout(total=BOUND_SECONDS)
    connector = aiohttp.TCPConnector(limit=NUM_AT_ONCE)
    async with aiohttp.ClientSession(service.url, timeout=timeout, connector=connector) as session:
        yield session


@pytest.mark.parametrize("family", FAMILIES)
async def test_answers_and_arguments_match_their_schemas(session, family):
    """Of a form and of a call that is asked for, whole and in a stream, which are the same."""
    async with asyncio.TaskGroup() as tasks:
        for schema in followed():
            if schema.family == family:
                tasks.create_task(check_both(session, schema, logit_bias=CLOSING))


@pytest.mark.parametrize("row", refused(), ids=lambda row: row.name)
async def test_what_cannot_be_followed_is_refused_by_its_name(session, row):
    """The refusal names the keyword and its place, and the field that holds the schema."""
    for wish, param, words in (
        (as_form(row.schema), "response_format", row.words),
        (as_arguments(row.arguments), "tools", row.words_of_arguments),
    ):
        async with session.post(CHAT, json=asked(row.name, wish, stream=True)) as response:
            status, error = response.status, json.loads(await response.text())["error"]
        assert (status, error["param"]) == (400, param), error
        assert error["type"] == "invalid_request_error"
        assert words in error["message"]
