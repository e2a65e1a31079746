"""Every client does on every route what scenarios.yaml says, and the server has seen it so."""

import pytest

from tests.interop.routes import ROUTES
from tests.interop.suite import run
from tests.interop.tell import tell_results
from tests.interop.uses import use_program


@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="session")
async def test_all_scenarios(client, route, grounds):
    """All scenarios go well; what a client cannot do is declared with it."""
    told = tell_results(client, await run(client, grounds))
    assert not told, told


@pytest.mark.timeout(300)
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.has_programs],
    ids=lambda route: route.name,
    indirect=True,
    scope="session",
)
async def test_the_program(client, route, grounds):
    """The program that people copy does the same in every language."""
    results = await use_program(client, grounds)
    assert results
    told = tell_results(client, results)
    assert not told, told
