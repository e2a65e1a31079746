"""docs/interop.md and clients.yaml are about what there is."""

import re

import pytest

from tests.interop import page
from tests.interop.clients import CLIENTS, ROOT
from tests.interop.routes import ROUTES
from tests.interop.scenarios import SCENARIOS


def tables():
    """The matrix of each route as lines of cells, by its heading."""
    parts = re.split(r"^### (.*)\n\n", page.section("matrix"), flags=re.MULTILINE)[1:]
    return {
        head: [_cells(line) for line in table.splitlines() if line]
        for head, table in zip(parts[::2], parts[1::2], strict=True)
    }


def _cells(line):
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_the_page_lists_the_scenarios():
    """The table is that of scenarios.yaml and of the uses of programs."""
    assert page.section("scenarios") == page.scenario_table()


def test_the_matrix_is_that_of_all_clients():
    """Every route has a table, with a row for each scenario and a column for each client."""
    assert list(tables()) == [f"{route.name}: {route.says}" for route in ROUTES]
    for route, (head, _, *rows) in zip(ROUTES, tables().values(), strict=True):
        assert head[1:] == [client.title for client in CLIENTS]
        assert [row[0] for row in rows] == page.rows_of(route)


def test_the_matrix_has_no_failure():
    """What the page tells went well, but for what a library cannot do."""
    for _, _, *rows in tables().values():
        for row, *cells in rows:
            wanted = [page.CANNOT if row in c.unsupported else page.GOOD for c in CLIENTS]
            assert cells == wanted, row


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_the_entry_of_a_client(client):
    """It has its folder with a README of one screen, and declares only scenarios that exist."""
    assert set(client.unsupported) <= {scenario.name for scenario in SCENARIOS}
    assert bool(client.needs) == bool(client.apt)
    if client is not CLIENTS[0]:
        assert client.folder.startswith("clients/")
        assert len((client.path / "README.md").read_text().splitlines()) <= 60


def test_every_folder_of_clients_is_tried():
    """What is under clients/ is in clients.yaml, but for what is tried in another way."""
    elsewhere = {"python", "web"}  # tests/client, and browsers in tests/deploy
    folders = {path.name for path in (ROOT / "clients").iterdir() if (path / "README.md").exists()}
    assert folders - elsewhere == {
        client.folder.removeprefix("clients/") for client in CLIENTS if client is not CLIENTS[0]
    }
