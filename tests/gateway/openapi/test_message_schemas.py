"""The OpenAPI document and docs/parameters.md say what the table of /v1/messages says."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from headrace_gateway.anthropic.fields import IGNORED_FIELDS, MESSAGES_FIELDS, NEUTRAL_VALUES
from headrace_gateway.openai.fields import read_fields
from headrace_gateway.openapi.document import openapi_document
from headrace_gateway.openapi.message_schemas import MESSAGES_DESCRIPTIONS, message_schemas

DOCUMENT = openapi_document("0")
PAGE = (Path(__file__).parents[3] / "docs" / "parameters.md").read_text()
SECTION = PAGE.partition("\n## Anthropic's messages\n")[2].partition("\n## ")[0]
TABLES = re.findall(r"(?:^\|.*\|\n)+", SECTION, re.MULTILINE)
TEXT = {"type": "text", "text": "a"}
USE = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "1"}


def rows_of(table):
    """Return the cells of a table without its head."""
    lines = TABLES[table].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names_of(table):
    return [cells[0].strip("`") for cells in rows_of(table)]


def test_the_page_has_every_field_in_the_words_of_the_document():
    """A field means the same to people and to programs."""
    assert names_of(0) == list(MESSAGES_FIELDS)
    words = {
        cells[0].strip("`"): re.sub(r", see (below|\[[^\]]*\]\(#[^)]*\))$", "", cells[1])
        for cells in rows_of(0)
    }
    assert words == MESSAGES_DESCRIPTIONS


def test_the_page_has_every_field_that_is_refused_or_ignored():
    """The tables have exactly those; what is ignored may be anything."""
    assert names_of(1) == list(NEUTRAL_VALUES)
    assert names_of(2) == list(IGNORED_FIELDS)
    assert set(names_of(2)).isdisjoint({*MESSAGES_FIELDS, *NEUTRAL_VALUES})
    values = {name: {"a": float("nan")} for name in IGNORED_FIELDS}
    assert read_fields(values, MESSAGES_FIELDS, NEUTRAL_VALUES) == {}


@pytest.mark.parametrize("name", ["MessagesRequest", "CountTokensRequest"])
def test_a_body_has_every_field(name):
    """The document has the fields of all three tables."""
    described = message_schemas()[name]["properties"]
    assert set(described) == {*MESSAGES_FIELDS, *NEUTRAL_VALUES, *IGNORED_FIELDS}


@pytest.mark.parametrize(
    ("fields", "is_valid"),
    [
        ({}, True),
        ({"messages": []}, False),
        ({"max_tokens": None}, False),
        ({"messages": [{"role": "user", "content": [TEXT]}]}, True),
        ({"messages": [{"role": "user", "content": []}]}, False),
        ({"messages": [{"role": "assistant", "content": [USE]}]}, True),
        ({"messages": [{"role": "user", "content": [{**RESULT, "content": [TEXT]}]}]}, True),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, False),
        ({"messages": [{"role": "tool", "content": "a"}]}, False),
        ({"system": [TEXT], "stop_sequences": ["a"], "temperature": None}, True),
        ({"stop_sequences": "a"}, False),
        ({"tools": [{"name": "f", "input_schema": {}, "type": None}]}, True),
        ({"tools": [{"name": "f", "type": "bash_20250124"}]}, False),
        ({"tool_choice": {"type": "tool", "name": "f"}}, True),
        ({"tool_choice": {"type": "tool"}}, False),
        ({"tool_choice": "auto"}, False),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, True),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, True),
        ({"output_config": {"format": {"type": "json_object"}}}, False),
        ({"mcp_servers": [], "container": None, "service_tier": "auto", "new_field": 5}, True),
        ({"container": "a"}, False),
    ],
)
def test_the_schema_tells_bodies_apart(fields, is_valid):
    """What the schema allows is what the gateway and the server take."""
    body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 5} | fields
    schema = {**DOCUMENT, "$ref": "#/components/schemas/MessagesRequest"}
    assert Draft202012Validator(schema).is_valid(body) == is_valid
