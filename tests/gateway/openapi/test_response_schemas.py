"""docs/parameters.md and the OpenAPI document say what happens to each field of a response."""

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from headrace_gateway.openapi.document import openapi_document
from headrace_gateway.openapi.field_descriptions import FIELD_DESCRIPTIONS
from headrace_gateway.openapi.response_schemas import RESPONSE_DESCRIPTIONS
from headrace_gateway.responses.fields import (
    RESPONSE_FIELDS,
    RESPONSE_IGNORED_FIELDS,
    RESPONSE_NEUTRAL_VALUES,
    STORED_FIELDS,
)

DOCUMENT = openapi_document("1.2.3")
PROPERTIES = DOCUMENT["components"]["schemas"]["ResponseRequest"]["properties"]
PAGE = (Path(__file__).parents[3] / "docs" / "parameters.md").read_text()
SECTION = PAGE.partition("\n## Responses\n")[2].partition("\n## ")[0]
TABLES = re.findall(r"(?:^\|.*\|\n)+", SECTION, re.MULTILINE)


def rows_of(table):
    """Return the cells of a table, without its head; the first is a name."""
    rows = [line.strip("|").split("|") for line in TABLES[table].splitlines()[2:]]
    return [[rows_cells[0].strip(" `"), *map(str.strip, rows_cells[1:])] for rows_cells in rows]


def test_every_supported_field_is_in_the_table():
    """In the order of the fields, in the words of the document."""
    rows = rows_of(0)
    assert [name for name, *_ in rows] == list(RESPONSE_FIELDS)
    for name, value, _ in rows:
        words = re.sub(r", see (?:below|\[[^\]]*\]\(#[^)]*\))", "", value)
        assert words == (RESPONSE_DESCRIPTIONS.get(name) or FIELD_DESCRIPTIONS[name])
        assert PROPERTIES[name]["description"].lower() == f"{words}.".lower()


def test_every_refused_field_is_in_its_table():
    """Those that need a store with what to do instead, others with the values that are taken."""
    assert dict(rows_of(1)) == STORED_FIELDS
    taken = {
        name: tuple(json.loads(value) for value in re.findall(r"`([^`]*)`", values))
        for name, values in rows_of(2)
    }
    assert taken == RESPONSE_NEUTRAL_VALUES


def test_every_ignored_field_is_in_its_table():
    """The document has all fields of the page, and no others."""
    assert [name for [name] in rows_of(3)] == list(RESPONSE_IGNORED_FIELDS)
    told = {*RESPONSE_FIELDS, *STORED_FIELDS, *RESPONSE_NEUTRAL_VALUES, *RESPONSE_IGNORED_FIELDS}
    assert set(PROPERTIES) == told


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"input": "a"}, True),
        ({"input": [{"role": "user", "content": "a"}], "instructions": None}, True),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "a"}]}, True),
        ({"input": "a", "new_field": 5}, True),
        ({"input": "a", "truncation": None, "tool_choice": None}, True),
        ({}, False),
        ({"input": None}, False),
        ({"input": []}, False),
        ({"input": [{"type": "item_reference", "id": "a"}]}, False),
        ({"input": "a", "previous_response_id": "resp_1"}, False),
        ({"input": "a", "tools": [{"type": "web_search", "name": "a"}]}, False),
        ({"input": "a", "truncation": "auto"}, False),
        ({"input": "a", "temperature": 3}, False),
    ],
)
def test_the_schema_tells_bodies_apart(body, is_valid):
    """What it allows is what the gateway and the server take."""
    schema = {**DOCUMENT, "$ref": "#/components/schemas/ResponseRequest"}
    assert Draft202012Validator(schema).is_valid(body) == is_valid
