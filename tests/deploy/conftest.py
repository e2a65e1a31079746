import pytest_asyncio
import uvloop

from tests.deploy.envoy_process import running_envoy
from tests.server.server_process import server_process


def pytest_asyncio_loop_factories(config, item):
    """Run on the event loop that the server runs on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest_asyncio.fixture
async def replica():
    """A server with steps of 10 ms, so that an answer takes a while."""
    async with server_process("--simulated-step-seconds", 0.01) as server:
        yield server


@pytest_asyncio.fixture
async def envoy(replica):
    """Envoy in front of one replica."""
    async with running_envoy(replicas=[replica.address]) as running:
        yield running
