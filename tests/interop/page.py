"""docs/interop.md: the scenarios and the matrix of results, between markers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.interop.clients import CLIENTS, ROOT
from tests.interop.routes import ROUTES
from tests.interop.scenarios import SCENARIOS
from tests.interop.tell import is_bad
from tests.interop.uses import USES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.interop.clients import Client
    from tests.interop.routes import Route
    from tests.interop.suite import Result

PAGE = ROOT / "docs" / "interop.md"
GOOD, BAD, CANNOT = "✓", "✗", "–"  # noqa: RUF001  # a dash in a cell

# Of a route, by name of the client and of the row.
Results = "Mapping[str, Mapping[str, Result]]"


def scenario_table() -> str:
    """What is done and seen, a line for each row of the matrix."""
    told = [(each.name, each.says) for each in (*SCENARIOS, *USES)]
    return _table(["scenario", "what happens"], told)


def rows_of(route: Route) -> list[str]:
    """The names of what is tried on a route."""
    names = [scenario.name for scenario in SCENARIOS]
    return [*names, *(use.name for use in USES)] if route.has_programs else names


def route_tables(clients: Sequence[Client], results: Mapping[str, Results]) -> str:
    """A table for each route, with a column for each client."""
    return "\n\n".join(
        f"### {route.name}: {route.says}\n\n{_route_table(route, clients, results[route.name])}"
        for route in ROUTES
        if route.name in results
    )


def _route_table(route: Route, clients: Sequence[Client], results: Results) -> str:
    rows = [
        [row, *(_cell(results[client.name][row], client) for client in clients)]
        for row in rows_of(route)
    ]
    return _table(["", *(client.title for client in clients)], rows)


def _cell(result: Result, client: Client) -> str:
    if is_bad(result, client):
        return BAD
    return GOOD if result.unsupported is None else CANNOT


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)


def write(results: Mapping[str, Results]) -> None:
    """Put the tables into the page."""
    page = PAGE.read_text()
    for name, text in (("scenarios", scenario_table()), ("matrix", route_tables(CLIENTS, results))):
        page = _section(name).sub(lambda found, text=text: f"{found[1]}\n{text}\n{found[3]}", page)
    PAGE.write_text(page)


def section(name: str) -> str:
    """What the page has between the markers of this name."""
    return _section(name).search(PAGE.read_text())[2]


def _section(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: .* -->)\n(.*?)\n?(<!-- end of {name} -->)", re.DOTALL)
