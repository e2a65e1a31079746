import pytest

from headrace import AsyncClient, Client
from tests.client.scripted_server import running_server


@pytest.fixture
def server():
    with running_server() as server:
        yield server


@pytest.fixture
def client(server):
    with Client(server.target) as client:
        yield client


@pytest.fixture
async def async_client(server):
    async with AsyncClient(server.target) as client:
        yield client
