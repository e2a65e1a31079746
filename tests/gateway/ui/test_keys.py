"""The chat page of a gateway that asks for a key."""

import pytest
from playwright.async_api import expect

from headrace_gateway.api_keys import to_api_key

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

ASKED_FOR = "The server asks for an API key. Enter it in the settings."
WRONG = "The API key is wrong. Enter the right one in the settings."


@pytest.fixture
def settings():
    return {"api_keys": (to_api_key("secret"),)}


async def enter(chat, key, *, is_kept=False):
    await chat.button("Settings").click()
    await chat.page.get_by_label("API key").fill(key)
    await chat.page.get_by_label("Keep the key in this browser").set_checked(is_kept)
    await chat.button("Save").click()


async def notice_is(chat, words):
    await expect(chat.page.get_by_role("status")).to_have_text(words)


async def test_a_person_is_led_to_the_right_key(open_chat, server):
    """The page opens without one, says what to do about a missing or a wrong one, then streams."""
    chat = await open_chat()
    await notice_is(chat, ASKED_FOR)
    await chat.ask("Hello?")
    alert = chat.answers.last.get_by_role("alert")
    await expect(alert).to_contain_text("The server asks for an API key")
    await expect(alert).to_contain_text("Enter it in the settings.")
    for wrong in ("Secret", "s\u00e9cret", "\u043a\u043b\u044e\u0447", "sec ret"):
        await enter(chat, wrong)
        await notice_is(chat, WRONG)
    await chat.button("Try again").click()
    await expect(alert).to_contain_text("The API key is wrong")
    await expect(alert).to_contain_text("Enter the right one in the settings.")
    assert server.calls == []
    await enter(chat, " secret ")
    await notice_is(chat, "")
    await expect(chat.page.get_by_label("Model")).to_have_value("tiny")
    await chat.button("Try again").click()
    await chat.says("Hello \U0001f30d")
    await chat.is_idle()
    [call] = server.calls
    assert call.metadata["authorization"] == "Bearer secret"
    assert call.metadata["x-headrace-caller"] == to_api_key("secret").name


async def test_a_key_that_is_kept_is_there_after_a_reload(open_chat):
    """One that is taken away again is asked for again."""
    chat = await open_chat()
    await enter(chat, "secret", is_kept=True)
    await notice_is(chat, "")
    await chat.reload()
    await expect(chat.page.get_by_label("Model")).to_have_value("tiny")
    await notice_is(chat, "")
    await enter(chat, "")
    await notice_is(chat, ASKED_FOR)
