"""The chat page in a headless Chromium, as a person uses it."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import async_playwright, expect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from playwright.async_api import Browser, Locator, Page

BOUND_SECONDS = 60
"""The longest wait for anything on the page: it is over at once, but where a machine is busy."""

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@dataclass
class ChatPage:
    """A page of its own, with what a person sees and does there.

    Args:
        page: of the browser.
        url: of the gateway.
        faults: what the page did wrong: uncaught errors, and what its policy refused.
        hosts: those that it asked for anything.
    """

    page: Page
    url: str
    faults: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)

    @property
    def question(self) -> Locator:
        return self.page.get_by_label("Your question")

    @property
    def answers(self) -> Locator:
        return self.page.locator(".message.assistant")

    @property
    def conversations(self) -> Locator:
        return self.page.get_by_role("navigation").get_by_role("listitem")

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    async def ask(self, text: str) -> None:
        await self.question.fill(text)
        if await self.run("() => matchMedia('(pointer: coarse)').matches"):
            await self.button("Send").click()
        else:
            await self.question.press("Enter")

    async def says(self, text: str) -> None:
        """Wait until the last answer has a text."""
        await expect(self.answers.last).to_contain_text(text)

    async def is_idle(self) -> None:
        """Wait until nothing is being answered."""
        await expect(self.button("Send")).to_be_visible()

    async def run(self, script: str, argument: object = None) -> object:
        return await self.page.evaluate(script, argument)

    async def reload(self) -> None:
        await self.page.reload()
        await self.opened()

    async def opened(self) -> None:
        """Wait until the page is ready for a question."""
        await expect(self.question).to_be_focused()


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Run Chromium; without one the tests are skipped, but in CI they fail."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        words = f"There is no browser: none of {', '.join(PROGRAMS)}."
        (pytest.fail if os.environ.get("CI") else pytest.skip)(words)
    expect.set_options(timeout=BOUND_SECONDS * 1000)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, timeout=BOUND_SECONDS * 1000
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_page(browser: Browser, url: str, **options: object) -> AsyncIterator[ChatPage]:
    """Open the page in a browser that knows nothing; at the end nothing may have gone wrong.

    Args:
        browser: that runs.
        url: of the gateway.
        options: of the context; ``before`` is a script that runs before the page's own.
    """
    before = options.pop("before", None)
    context = await browser.new_context(**{**DESKTOP, **options})
    context.set_default_timeout(BOUND_SECONDS * 1000)
    try:
        if before is not None:
            await context.add_init_script(before)
        chat = ChatPage(await context.new_page(), url)
        chat.page.on("pageerror", lambda error: chat.faults.append(str(error)))
        chat.page.on("request", lambda request: chat.hosts.add(request.url.split("/")[2]))
        chat.page.on("console", lambda message: _note(chat, message.type, message.text))
        await chat.page.goto(url)
        await chat.opened()
        yield chat
        assert chat.faults == []
    finally:
        await context.close()


def _note(chat: ChatPage, kind: str, text: str) -> None:
    # An answer with an error status is a line in the console too, and no fault of the page.
    if kind == "error" and "Failed to load resource" not in text:
        chat.faults.append(text)
