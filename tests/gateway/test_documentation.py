"""The page on the HTTP API says what the gateway does."""

import json
import re
from pathlib import Path

import pytest

from headrace_gateway import config
from headrace_gateway.openai.fields import (
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    NEUTRAL_VALUES,
    read_fields,
)

PAGE = Path(__file__).parents[2] / "docs" / "http.md"


def rows_of(heading):
    """Return the cells of the first table below a heading, without its head."""
    section = PAGE.read_text().partition(f"# {heading}\n")[2].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names_in(cell):
    return re.findall(r"`([^`]*)`", cell)


@pytest.mark.parametrize(("column", "fields"), [(1, CHAT_FIELDS), (2, COMPLETION_FIELDS)])
def test_every_supported_field_is_in_the_table(column, fields):
    """The table has exactly the fields that each endpoint supports."""
    rows = rows_of("Supported")
    assert {cells[column] for cells in rows} == {"yes", "no"}
    assert {names_in(cells[0])[0] for cells in rows if cells[column] == "yes"} == set(fields)
    assert {names_in(cells[0])[0] for cells in rows} == {*CHAT_FIELDS, *COMPLETION_FIELDS}


def test_every_refused_field_is_in_the_table_with_the_values_that_are_taken():
    """The table has exactly the fields that are refused, and what they may say."""
    documented = {
        names_in(name)[0]: tuple(json.loads(value) for value in names_in(values))
        for name, values in rows_of("Refused")
    }
    assert documented == NEUTRAL_VALUES


@pytest.mark.parametrize("fields", [CHAT_FIELDS, COMPLETION_FIELDS])
def test_the_fields_that_are_said_to_be_ignored_are(fields):
    """They are taken whatever they say."""
    ignored = [names_in(cells[0])[0] for cells in rows_of("Accepted and ignored")]
    assert ignored
    assert read_fields(dict.fromkeys(ignored, "something"), fields) == {}


def test_the_limits_have_their_defaults():
    """The defaults in the table are those of the gateway's flags."""
    shown = {
        names_in(flag)[0]: default.split()[0]
        for _, default, flag in rows_of("Limits")
        if flag.startswith("`") and "server" not in flag
    }
    defaults = config.GatewayConfig()
    assert shown == {
        "--max-body-bytes": str(defaults.max_body_bytes),
        "--body-timeout": f"{defaults.body_timeout_seconds:g}",
        "--max-connections": str(defaults.max_connections),
        "--write-timeout": f"{defaults.write_timeout_seconds:g}",
        "--request-timeout": "none",
        "--shutdown-timeout": f"{defaults.shutdown_timeout_seconds:g}",
    }
