"""The server is killed or told to stop while all clients read from it."""

import pytest

from tests.interop.clients import CLIENTS
from tests.interop.tell import tell_results
from tests.interop.together import TOGETHER, run_together


@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("scenario", TOGETHER, ids=lambda scenario: scenario.name)
async def test_the_server_goes_away(route, oracle, scenario):
    """Each client that can be run here sees what scenarios.yaml says."""
    clients = [client for client in CLIENTS if client.missing() is None]
    results = await run_together(clients, route, oracle, scenario)
    told = "\n".join(tell_results(client, [results[client.name]]) for client in clients).strip()
    assert not told, told
