from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import pytest_asyncio

from headrace_gateway.app import running
from headrace_gateway.config import GatewayConfig
from tests.server.running_server import Under, running_server

LOAD_SECONDS = 120.0


@dataclass(frozen=True)
class Stack:
    """The whole service on the default model; `url` is that of the gateway."""

    server: Under
    url: str

    def open_http(self) -> aiohttp.ClientSession:
        """Open an HTTP client whose connections end with their requests."""
        return aiohttp.ClientSession(
            self.url, raise_for_status=True, connector=aiohttp.TCPConnector(force_close=True)
        )

    async def all_returned(self) -> None:
        await self.server.all_returned()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stack():
    """The real engine behind both fronts, in one event loop, for all tests of this folder."""
    async with AsyncExitStack() as opened:
        server = await opened.enter_async_context(
            # One thread: threads that wait for each other take minutes where cores are shared.
            running_server(
                *("--backend", "native", "--kv-cache-bytes", "1GiB", "--num-threads", 1),
                ready_seconds=LOAD_SECONDS,
            )
        )
        gateway = await opened.enter_async_context(
            running(GatewayConfig(port=0, upstream=server.address))
        )
        yield Stack(server, f"http://{gateway.address}")
