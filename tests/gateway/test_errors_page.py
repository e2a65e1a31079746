"""docs/errors.md says what the server and the gateway say."""

import re
from pathlib import Path

import grpc
import pytest
from aiohttp import web

from headrace.v1.error_reason_pb2 import ErrorReason
from headrace_gateway import errors
from headrace_gateway.openai.api_error import invalid_field
from headrace_server.rpc.errors import _TABLE
from tests.gateway.test_errors import reason, rpc_error

PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()
TABLES = re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE)


def rows_of(table):
    """Return the cells of a table without its head, and without the words for people."""
    lines = [line.strip("|").split("|") for line in TABLES[table].splitlines()[2:]]
    return [tuple(cell.strip().strip("`") for cell in cells)[:-1] for cells in lines]


def translated(error):
    return shown(errors.from_rpc_error(error, lambda _: None))


def shown(error):
    return str(error.status), error.code or "null", error.type


def test_every_reason_of_the_server_is_in_the_table():
    """The table has each error of the server with its status on both fronts, and no other."""
    said = {
        (code.name, name, *translated(rpc_error(code, "", reason(name))))
        for code, number in _TABLE.values()
        if number
        for name in [ErrorReason.Name(number).removeprefix("ERROR_REASON_")]
    }
    assert set(rows_of(0)) == said
    reasons = {name.removeprefix("ERROR_REASON_") for name, number in ErrorReason.items() if number}
    assert {row[1] for row in rows_of(0)} == reasons


def test_every_status_without_a_reason_is_in_the_table():
    """The table has each status of gRPC; those that it does not name are faults."""
    documented = {row[0]: row[1:] for row in rows_of(1)}
    too_large = rpc_error(grpc.StatusCode.RESOURCE_EXHAUSTED, "message larger than max")
    assert documented.pop("RESOURCE_EXHAUSTED`, message too large") == translated(too_large)
    others = documented.pop("all others")
    for code in grpc.StatusCode:
        if code is not grpc.StatusCode.OK:
            assert translated(rpc_error(code)) == documented.pop(code.name, others)
    assert documented == {}


def test_every_error_of_the_gateway_is_in_the_table():
    """The table has what the gateway says by itself."""
    said = [
        errors.unauthenticated(),
        errors.contradicting_keys(),
        errors.draining(),
        errors.stopped(),
        errors.no_answer(),
        errors.not_ready(None),
        errors.too_many_connections(),
        errors.unfinished_answer(),
        errors.too_many_calls(),
        errors.answer_too_large(1),
        errors.deadline_exceeded(),
        errors.malformed_http(400),
        errors.from_unexpected(RuntimeError()),
        invalid_field("n", "n is wrong."),
        *(
            errors.from_http_exception(error)
            for error in (
                web.HTTPNotFound(),
                web.HTTPMethodNotAllowed("BREW", ["GET"]),
                web.HTTPRequestEntityTooLarge(1, 2),
                web.HTTPExpectationFailed(),
            )
        ),
    ]
    assert {shown(error) for error in said} <= set(rows_of(2))


@pytest.mark.parametrize("table", [0, 1, 2])
def test_each_table_has_its_rows_once(table):
    """A table without rows would prove nothing, and one with a row twice is wrong."""
    rows = rows_of(table)
    assert len(rows) > 10
    assert len(set(rows)) == len(rows)
