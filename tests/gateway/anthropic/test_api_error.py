"""Errors in Anthropic's shape, and the table of docs/errors.md."""

from pathlib import Path

import msgspec

from headrace_gateway.anthropic.api_error import error_body, error_status
from headrace_gateway.openai.api_error import ApiError

PAGE = (Path(__file__).parents[3] / "docs" / "errors.md").read_text()
SECTION = PAGE.partition("\n## To Anthropic's clients\n")[2].partition("\n## ")[0]


def test_an_error_has_type_message_and_id():
    """What is no character is replaced, so that the answer is JSON."""
    body = error_body(ApiError(404, "No \ud800."), "req_1")
    assert msgspec.json.encode(body) == (
        b'{"type":"error","error":{"type":"not_found_error","message":"No ?."},'
        b'"request_id":"req_1"}'
    )


def test_every_status_is_in_the_table():
    """The page has each status of the two tables above, with the one here and its type."""
    lines = [line for line in SECTION.splitlines() if line.startswith("|")][2:]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    for status, here, kind in rows:
        error = ApiError(int(status), "a")
        assert (str(error_status(error)), error_body(error, "").error.type) == (here, kind)
    above = PAGE.partition("\n## To Anthropic's clients\n")[0]
    cells = {cell.strip() for line in above.splitlines() for cell in line.split("|")}
    told = {cell for cell in cells if cell.isdigit()}
    assert {row[0] for row in rows} == told
