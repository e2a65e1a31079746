"""The page on the HTTP API says what the gateway does."""

import re
from pathlib import Path

from headrace_gateway import config
from headrace_gateway.openapi.document import OPERATIONS

PAGE = Path(__file__).parents[2] / "docs" / "http.md"


def rows_of(heading):
    """Return the cells of the first table below a heading, without its head."""
    section = PAGE.read_text().partition(f"# {heading}\n")[2].partition("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names_in(cell):
    return re.findall(r"`([^`]*)`", cell)


def test_every_endpoint_is_in_the_table():
    """The table has those that the document for programs has, and no other."""
    documented = [name for cells in rows_of("Endpoints") for name in names_in(cells[0])]
    assert sorted(documented) == sorted(f"{each.method} {each.path}" for each in OPERATIONS)


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
