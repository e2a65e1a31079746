from __future__ import annotations

import asyncio
import json
import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import pytest

from headrace_gateway.app import RunningGateway, running
from headrace_gateway.config import GatewayConfig
from tests.client.scripted_server import BOUND_SECONDS, running_server
from tests.gateway.service import serving


@dataclass
class GatewayUnderTest:
    """A gateway on its real runner, with a client of its own."""

    running: RunningGateway
    session: aiohttp.ClientSession

    @property
    def port(self) -> int:
        return int(self.running.address.rpartition(":")[2])

    def url(self, path: str) -> str:
        return f"http://{self.running.address}{path}"

    def request(self, method: str, path: str, **options):
        return self.session.request(method, self.url(path), **options)

    def post(self, path: str, body, **options):
        return self.request("POST", path, json=body, **options)

    async def post_for_error(self, path: str, body, **options):
        """Return status and error of an answer that must be an error."""
        async with self.post(path, body, **options) as response:
            return response.status, (await response.json())["error"]

    async def exchange_bytes(self, data: bytes) -> bytes:
        """Send bytes on a connection of their own and return what comes until it is closed."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(BOUND_SECONDS):
                return await reader.read()
        finally:
            writer.close()


@pytest.fixture
def server():
    with running_server() as server:
        yield server


@pytest.fixture
async def start_gateway(server):
    """Start a gateway in front of the scripted server, with settings."""
    async with AsyncExitStack() as stack:

        async def start(**settings) -> GatewayUnderTest:
            config = GatewayConfig(**{"port": 0, "upstream": server.target, **settings})
            gateway = await stack.enter_async_context(running(config))
            timeout = aiohttp.ClientTimeout(total=BOUND_SECONDS)
            session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
            return GatewayUnderTest(gateway, session)

        yield start


@pytest.fixture
async def gateway(start_gateway):
    return await start_gateway()


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """A server with its simulated engine and a gateway in front of it, for all tests."""
    with serving(tmp_path_factory.mktemp("service")) as service:
        yield service


class AccessLog(logging.Handler):
    """The lines of the access log as they are written."""

    def __init__(self):
        super().__init__()
        self._lines = asyncio.Queue()

    def emit(self, record):
        self._lines.put_nowait(record.fields)

    async def next_line(self):
        """Return the next line; there must be one within the bound."""
        return await asyncio.wait_for(self._lines.get(), BOUND_SECONDS)

    def has_more(self):
        return not self._lines.empty()


@pytest.fixture
async def access_log():
    logger = logging.getLogger("headrace_gateway.exchange")
    handler, level = AccessLog(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


def events_of(text: str) -> list:
    """Return the data of the events of a stream; what is no JSON stays text."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    data = [block.removeprefix("data: ") for block in blocks]
    return [item if item == "[DONE]" else json.loads(item) for item in data]
