from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from headrace_gateway.app import running
from headrace_gateway.config import GatewayConfig
from tests.client.scripted_server import Admit, Hold, end, piece
from tests.gateway.ui.browser import open_page, running_browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with running_browser() as browser:
        yield browser


@pytest.fixture
def settings():
    """The settings of the gateway, beside those that tests need."""
    return {}


@pytest_asyncio.fixture(loop_scope="module")
async def open_chat(browser, server, settings):
    """Open the page of a gateway in front of the scripted server, with options."""
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(
            running(GatewayConfig(port=0, upstream=server.target, **settings))
        )

        async def start(**options):
            url = f"{'https' if 'ssl_certfile' in settings else 'http'}://{gateway.address}/"
            return await stack.enter_async_context(open_page(browser, url, **options))

        yield start


@pytest_asyncio.fixture(loop_scope="module")
async def chat(open_chat):
    return await open_chat()


@pytest.fixture
def held(server):
    """A script that holds an answer after its first words."""
    hold = Hold()

    def script(request):
        yield Admit()
        yield piece("Once upon", 1)
        yield hold
        yield end(" a time.", 2)

    server.script = script
    return hold


def answering(*texts):
    """Return a script that says texts, one after the other."""

    def script(request):
        yield Admit()
        for text in texts[:-1]:
            yield piece(text, 1)
        yield end(texts[-1], 1)

    return script
