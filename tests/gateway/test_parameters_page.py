"""docs/parameters.md says what happens to each field of a body."""

import json
import re
from pathlib import Path

import pytest

from headrace_gateway.openai.fields import (
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    DETOKENIZE_FIELDS,
    IGNORED_FIELDS,
    NEUTRAL_VALUES,
    TOKENIZE_FIELDS,
    TOKENIZE_NEUTRAL_VALUES,
    read_fields,
)

PAGE = (Path(__file__).parents[2] / "docs" / "parameters.md").read_text()
ENDPOINTS = {"chat": CHAT_FIELDS, "completions": COMPLETION_FIELDS}


def rows_of(heading, table=0):
    """Return the cells of a table below a heading, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = re.findall(r"(?:^\|.*\|\n)+", section, re.MULTILINE)
    lines = tables[table].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names_in(cell):
    return re.findall(r"`([^`]*)`", cell)


def check_columns(rows, fields_by_column):
    """Check that each column says yes in the rows of exactly its fields."""
    known = {name for fields in fields_by_column for name in fields}
    assert [names_in(cells[0]) for cells in rows] == [[names_in(cells[0])[0]] for cells in rows]
    names = [names_in(cells[0])[0] for cells in rows]
    assert len(set(names)) == len(names)
    assert set(names) == known
    for column, fields in enumerate(fields_by_column, 1):
        assert {cells[column] for cells in rows} <= {"yes", "no"}
        told = {name for name, cells in zip(names, rows, strict=True) if cells[column] == "yes"}
        assert told == set(fields)


def neutral_values_in(rows):
    return {
        names_in(name)[0]: tuple(json.loads(value) for value in names_in(values))
        for name, values in rows
    }


def test_every_supported_field_is_in_the_table():
    """The table has exactly the fields that each endpoint supports."""
    check_columns(rows_of("Supported"), [CHAT_FIELDS, COMPLETION_FIELDS])


def test_every_refused_field_is_in_the_table_with_the_values_that_are_taken():
    """The table has exactly the fields that are refused, what they may say, and where."""
    rows = rows_of("Refused")
    assert neutral_values_in(rows) == NEUTRAL_VALUES
    for cells in rows:
        [name] = names_in(cells[0])
        refusing = [endpoint for endpoint, fields in ENDPOINTS.items() if name not in fields]
        where = {"": [*ENDPOINTS], " (in a chat)": ["chat"], " (in completions)": ["completions"]}
        assert where[cells[0].partition(f"`{name}`")[2]] == refusing


@pytest.mark.parametrize("fields", ENDPOINTS.values(), ids=ENDPOINTS)
def test_every_ignored_field_is_in_the_table(fields):
    """The table has exactly those, and they are taken whatever they say."""
    ignored = [names_in(cells[0])[0] for cells in rows_of("Accepted and ignored")]
    assert ignored == list(IGNORED_FIELDS)
    assert set(ignored).isdisjoint({*fields, *NEUTRAL_VALUES})
    for value in ("something", 5, {"a": float("nan")}, ["\ud800"]):
        assert read_fields(dict.fromkeys(ignored, value), fields) == {}


def test_every_field_of_tokens_is_in_the_tables():
    """The tables have exactly the fields that are supported, and those that are refused."""
    check_columns(rows_of("Tokens"), [TOKENIZE_FIELDS, DETOKENIZE_FIELDS])
    assert neutral_values_in(rows_of("Tokens", table=1)) == TOKENIZE_NEUTRAL_VALUES


def test_every_link_of_the_page_has_its_place():
    """What a table points to is there."""
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    places = {heading.lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= places
