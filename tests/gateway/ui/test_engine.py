"""The chat page in front of the server itself, with its simulated engine."""

import asyncio
import urllib.request

import pytest
import pytest_asyncio
from playwright.async_api import expect
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.service import serving
from tests.gateway.ui.browser import BOUND_SECONDS, open_page

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

# Without chance, the simulated model answers this with 1933 tokens.
QUESTION = "Once upon a time"
GREEDY = """localStorage.setItem("headrace.parameters", '{"temperature": "0"}')"""

# Slow, so that an answer takes minutes, and one at a time, so that the next would wait for it.
FLAGS = ("--simulated-step-seconds", "0.2", "--max-num-seqs", "1", "--metrics-port", "0")


@pytest.fixture(scope="module")
def slow_service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("service"), FLAGS) as service:
        yield service


@pytest_asyncio.fixture(loop_scope="module")
async def slow_chat(browser, slow_service):
    async with open_page(browser, f"{slow_service.url}/", before=GREEDY) as chat:
        yield chat


def live_sequences(service):
    """Return how many sequences the engine holds, as its metrics tell."""
    [line] = [line for line in service.server.log_lines() if line["event"] == "serving metrics"]
    with urllib.request.urlopen(f"http://{line['address']}/metrics") as response:
        families = text_string_to_metric_families(response.read().decode())
    values = {sample.name: sample.value for family in families for sample in family.samples}
    return values["headrace_sequences_opened_total"] - values["headrace_sequences_closed_total"]


async def wait_for_sequences(service, count):
    async with asyncio.timeout(BOUND_SECONDS):
        while await asyncio.to_thread(live_sequences, service) != count:
            pass


async def test_stop_frees_the_engine(slow_chat, slow_service):
    """While the answer streams the engine has one sequence, after stop none, and the next runs."""
    chat = slow_chat
    await chat.ask(QUESTION)
    await expect(chat.answers.last.locator(".answer-text")).not_to_be_empty()
    await wait_for_sequences(slow_service, 1)
    await chat.button("Stop").click()
    await chat.says("Stopped")
    await wait_for_sequences(slow_service, 0)
    calls = [line for line in slow_service.server.log_lines() if line["event"] == "call"]
    assert [call["code"] for call in calls if "Generate" in str(call)] == ["CANCELLED"]
    await chat.button("Settings").click()
    await chat.page.get_by_label("Maximum tokens").fill("3")
    await chat.button("Save").click()
    await chat.ask("And another")
    await chat.says("Reached the maximum of tokens · 3 tokens · ")
