"""Conversations are kept in the browser."""

import asyncio
import json

import pytest
from playwright.async_api import expect

from tests.gateway.ui.conftest import answering

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


async def talk(chat, server, name):
    """Have a short conversation."""
    server.script = answering(f"About {name}.")
    await chat.button("New conversation").click()
    await chat.ask(name)
    await chat.says(f"About {name}.")
    await chat.is_idle()


async def test_a_reload_brings_back_what_was_said(chat, server):
    """All conversations are there, the newest first, and the one that was open is open."""
    for name in ("Rivers", "Wheels", "Mills"):
        await talk(chat, server, name)
    await chat.conversations.get_by_role("button", name="Wheels", exact=True).click()
    await chat.says("About Wheels.")
    await chat.reload()
    await expect(chat.conversations.locator(".title")).to_have_text(["Mills", "Wheels", "Rivers"])
    await chat.says("About Wheels.")
    await expect(chat.page).to_have_title("Wheels · Headrace")
    current = chat.page.locator("[aria-current=page]")
    await expect(current).to_have_text("Wheels")
    assert len(server.calls) == 3


async def test_a_conversation_can_be_renamed(chat, server):
    """Its new name outlives the page."""
    await talk(chat, server, "Rivers")
    await chat.button("Change “Rivers”").click()
    await chat.page.get_by_label("Name").fill("Streams")
    await chat.page.keyboard.press("Enter")
    await expect(chat.conversations.locator(".title")).to_have_text(["Streams"])
    await expect(chat.button("Change “Streams”")).to_be_focused()
    await chat.reload()
    await expect(chat.conversations.locator(".title")).to_have_text(["Streams"])


async def test_a_conversation_can_be_deleted(chat, server):
    """It is gone for good, and the others stay."""
    for name in ("Rivers", "Wheels"):
        await talk(chat, server, name)
    await chat.button("Change “Wheels”").click()
    await chat.button("Delete").click()
    await expect(chat.button("New conversation")).to_be_focused()
    for _ in range(2):
        await expect(chat.conversations.locator(".title")).to_have_text(["Rivers"])
        await expect(chat.answers).to_have_count(0)
        await chat.reload()


async def test_conversations_can_be_exported(chat, server):
    """One or all of them are saved as JSON with everything that was said."""
    for name in ("Rivers", "Wheels"):
        await talk(chat, server, name)
    await chat.button("Change “Wheels”").click()
    async with chat.page.expect_download() as saved:
        await chat.button("Export").click()
    download = await saved.value
    assert download.suggested_filename == "wheels.json"
    [one] = (await content_of(download))["conversations"]
    texts = [(message["role"], message["text"]) for message in one["messages"]]
    assert texts == [("user", "Wheels"), ("assistant", "About Wheels.")]
    await chat.button("Settings").click()
    async with chat.page.expect_download() as saved:
        await chat.button("Export all conversations").click()
    every = (await content_of(await saved.value))["conversations"]
    assert [each["title"] for each in every] == ["Wheels", "Rivers"]


async def content_of(download):
    return json.loads(await asyncio.to_thread((await download.path()).read_text))


async def test_an_answer_that_the_page_left_is_stopped(chat, held, server):
    """A page that is closed within an answer ends it, and says so when it is opened again."""
    await chat.ask("Tell me a story")
    await chat.says("Once upon")
    await chat.reload()
    await chat.says("Stopped")
    assert server.calls[0].wait_until_cancelled()
    server.script = answering("A whole one.")
    await chat.button("Answer again").click()
    await chat.says("A whole one.")


@pytest.mark.parametrize(
    "before",
    [
        "indexedDB.open = () => { throw new DOMException('no', 'SecurityError') }",
        "IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceeded') }",
        "for (const name of ['localStorage', 'sessionStorage', 'indexedDB'])"
        " Object.defineProperty(window, name, { get() { throw new DOMException('no') } })",
    ],
)
async def test_a_browser_that_keeps_nothing_is_enough_to_chat(open_chat, server, before):
    """Without storage the page says that nothing is kept, and answers all the same."""
    chat = await open_chat(before=before)
    await talk(chat, server, "Rivers")
    await expect(chat.page.get_by_role("status")).to_contain_text("until the page is closed")
    await expect(chat.conversations.locator(".title")).to_have_text(["Rivers"])
    await chat.button("Hide this").click()
    await expect(chat.page.get_by_role("status")).to_be_empty()


async def test_the_number_of_conversations_is_bounded(chat, server):
    """The ones that were not used for longest give way."""
    await talk(chat, server, "The first one")
    bound = await chat.run(
        """async () => {
          const { Library, MAX_CONVERSATIONS } = await import("/ui/scripts/library.js");
          const library = new Library();
          await library.open();
          const [kept] = await library.readAll();
          for (let i = 1; i < MAX_CONVERSATIONS; i += 1) {
            await library.write({ ...kept, id: `${i}`, title: `${i}`, updated: kept.updated + i });
          }
          return MAX_CONVERSATIONS;
        }"""
    )
    await chat.reload()
    await expect(chat.conversations).to_have_count(bound)
    await talk(chat, server, "One more")
    await chat.reload()
    await expect(chat.conversations).to_have_count(bound)
    await expect(chat.conversations.first).to_contain_text("One more")
    await expect(chat.conversations.filter(has_text="The first one")).to_have_count(0)
