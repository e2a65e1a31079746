"""A page calls Generate by gRPC-Web through Envoy, and stops it."""

import re
import time

import pytest
from playwright.async_api import expect

from tests.interop.web.conftest import open_page
from tests.interop.wire import wire_to

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

STOP_SECONDS = 1.0


def generations(service):
    """The lines that the server has logged of answers."""
    return [call for call in service.server.calls if call["method"].endswith("/Generate")]


async def ended(service, num_before):
    """Wait until one more answer has ended, and return its line."""
    await service.server.until(lambda: len(generations(service)) > num_before)
    (call,) = generations(service)[num_before:]
    return call


async def test_text_comes_while_the_answer_runs_and_stops_on_demand(page, service):
    """The first text is there before the end; Stop cancels at the server and frees all memory."""
    num_before = len(generations(service))
    await page.ask("Once")
    await expect(page.answer).not_to_be_empty()
    await expect(page.state).to_have_text("Answering…")
    await expect(page.button("Stop")).to_be_focused()
    first = await page.answer.text_content()
    await expect(page.answer).not_to_have_text(first)
    assert len(generations(service)) == num_before
    began = time.monotonic()
    await page.stop()
    call = await ended(service, num_before)
    assert time.monotonic() - began < STOP_SECONDS
    assert call["code"] == "CANCELLED"
    await service.server.balance()
    await expect(page.state).to_have_text("Stopped.")
    await expect(page.button("Ask")).to_be_focused()
    await expect(page.problem).to_be_empty()
    assert (await page.answer.text_content()).startswith(first)


async def test_leaving_the_page_cancels(page, service):
    """An answer that runs when its tab is closed ends at the server."""
    num_before = len(generations(service))
    await page.ask("Once")
    await expect(page.answer).not_to_be_empty()
    began = time.monotonic()
    await page.page.close()
    call = await ended(service, num_before)
    assert time.monotonic() - began < STOP_SECONDS
    assert call["code"] == "CANCELLED"
    await service.server.balance()


async def test_a_connection_that_is_lost_shows_as_such(page, service):
    """What has come stays, and the problem is not that the page may not call."""
    num_before = len(generations(service))
    async with wire_to(service.envoy.public) as wire:
        await page.page.get_by_label("Server").fill(f"http://{wire.target}")
        await page.ask("Once")
        await expect(page.answer).not_to_be_empty()
    await expect(page.problem).to_have_text(re.compile("was lost amid the answer"))
    await expect(page.answer).not_to_be_empty()
    assert (await ended(service, num_before))["code"] == "CANCELLED"


async def test_a_key_that_cannot_be_sent_is_not_shown(page, service):
    """No call is made, and the page says what is wrong without the key."""
    num_before = len(generations(service))
    await page.ask("Once", key="schlüssel")
    await expect(page.problem).to_have_text(re.compile("apiKey must be visible ASCII"))
    assert "schlüssel" not in await page.page.content()
    assert len(generations(service)) == num_before


async def test_the_browser_asks_before_it_calls(page, service):
    """The page is of another origin than Envoy, which lets it call and read the error."""
    await page.ask("Once", model="nobody")
    await expect(page.problem).not_to_be_empty()
    assert page.preflights == [200]


async def test_an_error_shows_its_reason(page, service):
    """The reason and the words of the server come through, and another question may follow."""
    await page.ask("Once", model="nobody")
    await expect(page.problem).to_have_text(
        re.compile(r'MODEL_NOT_FOUND: .*"nobody" is not served')
    )
    await expect(page.state).to_be_empty()
    await expect(page.answer).to_be_empty()
    await page.ask("Once", key="wrong")
    await expect(page.problem).to_have_text(re.compile("^UNAUTHENTICATED: "))
    await service.server.balance()


async def test_a_page_from_elsewhere_may_not_call(browser, service):
    """Envoy does not let other pages than those of this machine call, and the page says so."""
    num_before = len(service.server.calls)
    async with open_page(browser, "http://elsewhere.example", service) as page:
        await page.ask("Once")
        await expect(page.problem).to_have_text(
            re.compile("does not let pages of http://elsewhere.example call")
        )
    calls = service.server.calls[num_before:]
    assert [call for call in calls if "Generate" in call["method"]] == []
