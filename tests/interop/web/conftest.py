"""The page of clients/web in a browser, Envoy, and a server: all of them real."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from aiohttp import web

from tests.deploy.envoy_process import running_envoy
from tests.gateway.ui.browser import BOUND_SECONDS, running_browser
from tests.interop.server import server_process

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Locator, Page

    from tests.deploy.envoy_process import Envoy
    from tests.interop.server import ServerProcess

FOLDER = Path(__file__).parents[3] / "clients" / "web"
DIST = FOLDER / "dist"
KEY = "the-key-of-the-page"
# The answers to the first three questions are of 400 tokens and more, which is 4 s of time to stop
# them: a page cannot ask for one without an end.
_FLAGS = ("--seed", 5, "--simulated-step-seconds", 0.01, "--api-key", KEY)


@dataclass
class AskingPage:
    """The page, with what a person sees and does there.

    Attributes:
        preflights: the statuses of the browser's own questions to Envoy.
        faults: uncaught errors, and what the policy of the page refused.
    """

    page: Page
    context: BrowserContext
    preflights: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def answer(self) -> Locator:
        return self.page.get_by_label("Answer")

    @property
    def state(self) -> Locator:
        return self.page.get_by_role("status")

    @property
    def problem(self) -> Locator:
        return self.page.get_by_role("alert")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    async def ask(self, question: str, *, key: str = KEY, model: str = "") -> None:
        await self.page.get_by_label("API key").fill(key)
        await self.page.get_by_label("Model").fill(model)
        await self.page.get_by_label("Question").fill(question)
        await self.button("Ask").click()

    async def stop(self) -> None:
        await self.button("Stop").click()

    async def follow(self) -> None:
        """Take notes from now on."""
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("console", self._note)
        network = await self.context.new_cdp_session(self.page)
        network.on("Network.responseReceived", self._note_response)
        await network.send("Network.enable")

    def _note(self, message) -> None:
        if "Content Security Policy" in message.text:
            self.faults.append(message.text)

    def _note_response(self, event) -> None:
        if event["type"] == "Preflight":
            self.preflights.append(event["response"]["status"])


@dataclass(frozen=True)
class Service:
    """A server, and Envoy before it."""

    server: ServerProcess
    envoy: Envoy


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service():
    async with (
        server_process(*_FLAGS) as server,
        running_envoy(replicas=[server.address]) as envoy,
    ):
        await envoy.wait_for_healthy(1)
        yield Service(server, envoy)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site():
    """Serve the built page on a port of its own, as any server of files does; yields its URL."""
    if not (DIST / "page.js").exists():
        words = "the page is not built; run 'make clients'"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(words)
    app = web.Application()
    app.router.add_static("/", DIST)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        listener = web.TCPSite(runner, "127.0.0.1", 0)
        await listener.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser, service, site):
    async with open_page(browser, site, service) as page:
        yield page


@asynccontextmanager
async def open_page(browser, site: str, service: Service):
    """Open the page at a site; at the end nothing may have gone wrong."""
    context = await browser.new_context()
    context.set_default_timeout(BOUND_SECONDS * 1000)
    try:
        if not site.startswith("http://127.0.0.1"):
            await context.route(f"{site}/**", _fulfil)
        asking = AskingPage(await context.new_page(), context)
        await asking.follow()
        await asking.page.goto(f"{site}/index.html?server=http://{service.envoy.public}")
        yield asking
        assert asking.faults == []
    finally:
        await context.close()


async def _fulfil(route) -> None:
    """Answer in place of a site of another name."""
    await route.fulfill(path=DIST / route.request.url.partition("?")[0].rpartition("/")[2])
