from __future__ import annotations

import os

import pytest
import pytest_asyncio

from tests.interop.clients import CLIENTS
from tests.interop.grounds import open_grounds
from tests.interop.oracle import open_oracle
from tests.interop.routes import ROUTES


@pytest.fixture(scope="session", params=ROUTES, ids=lambda route: route.name)
def route(request):
    """A route; the tests of one come together."""
    return request.param


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def oracle():
    """Knows what is right to answer."""
    async with open_oracle() as oracle:
        yield oracle


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def grounds(route, oracle):
    """The servers for all clients on a route."""
    async with open_grounds(route, oracle) as grounds:
        yield grounds


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request):
    """A client that can be run here; in CI it must, where the machine knows how to get it."""
    client = request.param
    if (missing := client.missing()) is not None:
        if os.environ.get("CI") == "true" and client.is_installable():
            pytest.fail(missing)
        pytest.skip(missing)
    return client
