"""The chat page for keyboards, screen readers, phones, and eyes by day and night."""

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import expect

from tests.gateway.ui.browser import PHONE
from tests.gateway.ui.conftest import answering
from tests.gateway.ui.test_markup import MARKDOWN

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

MIN_TARGET_PIXELS = 44  # of a finger, by WCAG 2.5.5

LIGHTNESS = """() => {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.fillStyle = getComputedStyle(document.body).backgroundColor;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data[0] / 255;
}"""


FOCUSED_NAME = r"""() => {
  const focused = document.activeElement;
  return focused.ariaLabel ?? (focused.labels?.[0] ?? focused).innerText.split("\n")[0];
}"""


async def violations_of(chat):
    """Return what axe finds against WCAG 2.2 AA and good practice."""
    found = (await Axe().run(chat.page)).response["violations"]
    return [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("device", [{}, PHONE], ids=["desktop", "phone"])
async def test_nothing_stands_in_the_way_of_assistive_technology(open_chat, server, scheme, device):
    """Names, roles, order and contrast are right in each state of the page."""
    # What axe evaluates is refused by the policy of the page.
    chat = await open_chat(color_scheme=scheme, reduced_motion="reduce", bypass_csp=True, **device)
    assert await violations_of(chat) == []
    server.script = answering(MARKDOWN)
    await chat.ask("Show me")
    await chat.is_idle()
    assert await violations_of(chat) == []
    await chat.page.context.set_offline(True)
    await chat.ask("Hello?")
    await expect(chat.page.get_by_role("alert")).to_be_visible()
    assert await violations_of(chat) == []
    await chat.button("Settings").click()
    await expect(chat.page.get_by_role("dialog")).to_be_visible()
    assert await violations_of(chat) == []
    await chat.page.keyboard.press("Escape")
    if device:
        await chat.button("Conversations").click()
        assert await violations_of(chat) == []


async def test_the_keyboard_reaches_everything_in_order(chat, server):
    """The skip link comes first and leads to the question; the rest follows as it is seen."""
    await talk(chat, server)
    await chat.page.locator("a, button, [tabindex]").first.focus()
    names = [await chat.run(FOCUSED_NAME)]
    for _ in range(9):
        await chat.page.keyboard.press("Tab")
        names.append(await chat.run(FOCUSED_NAME))
    assert names == [
        "Skip to the question",
        "New conversation",
        "Hello",
        "Change “Hello”",
        "Model",
        "Theme: system",
        "Settings",
        "Messages",
        "Copy the text",
        "Edit the question",
    ]
    await chat.page.get_by_role("link", name="Skip to the question").focus()
    await chat.page.keyboard.press("Enter")
    await expect(chat.question).to_be_focused()
    await chat.says("Hello back.")


async def talk(chat, server):
    server.script = answering("Hello back.")
    await chat.ask("Hello")
    await chat.says("Hello back.")
    await chat.is_idle()


async def test_a_line_break_is_not_the_end_of_a_question(chat, server):
    """Shift and Enter break the line, and Enter ends a word that is being composed."""
    await chat.question.press("a")
    await chat.question.press("Shift+Enter")
    await chat.question.press("b")
    await chat.question.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    await expect(chat.question).to_have_value("a\nb")
    assert server.calls == []
    await chat.question.press("Enter")
    await chat.says("Hello")
    await expect(chat.question).to_have_value("")
    assert server.calls[0].request.chat.messages[0].content == "a\nb"


async def test_on_a_phone_enter_breaks_the_line(open_chat, server):
    """There the button sends, and the keyboard does not come up again over the answer."""
    chat = await open_chat(**PHONE)
    await chat.question.press("a")
    await chat.question.press("Enter")
    await chat.question.press("b")
    await chat.button("Send").click()
    await chat.says("Hello")
    assert server.calls[0].request.chat.messages[0].content == "a\nb"
    await expect(chat.question).not_to_be_focused()


async def test_the_focus_stays_where_something_is_left(chat, server):
    """A button that goes with its answer hands the focus to the messages."""
    await talk(chat, server)
    await chat.answers.last.get_by_role("button", name="Answer again").press("Enter")
    await expect(chat.page.get_by_role("region", name="Messages")).to_be_focused()


async def test_nothing_is_sent_twice_or_empty(chat, server, held):
    """Blank questions are none, and while an answer runs the next question waits in its field."""
    await chat.ask("  \n ")
    await expect(chat.button("Send")).to_be_disabled()
    await chat.ask("First")
    await chat.says("Once upon")
    await chat.ask("Second")
    await expect(chat.question).to_have_value("Second")
    assert len(server.calls) == 1
    held.over.set()
    await chat.is_idle()
    await expect(chat.question).to_have_value("Second")


async def test_dialogs_give_the_focus_back(chat):
    """Esc closes the settings and leads back to the button that opened them."""
    await chat.button("Settings").focus()
    await chat.page.keyboard.press("Enter")
    await expect(chat.page.get_by_role("dialog")).to_be_visible()
    await chat.page.keyboard.press("Escape")
    await expect(chat.page.get_by_role("dialog")).to_be_hidden()
    await expect(chat.button("Settings")).to_be_focused()


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
async def test_the_theme_is_that_of_the_system_or_the_chosen_one(open_chat, scheme, is_dark):
    """The page follows the system until a theme is chosen, which outlives the page."""
    chat = await open_chat(color_scheme=scheme)
    assert (await chat.run(LIGHTNESS) < 0.5) is is_dark
    await chat.button("Theme: system").click()
    assert await chat.run(LIGHTNESS) > 0.5
    await chat.button("Theme: light").click()
    assert await chat.run(LIGHTNESS) < 0.5
    await chat.reload()
    assert await chat.run(LIGHTNESS) < 0.5
    await expect(chat.button("Theme: dark")).to_be_visible()


async def test_a_phone_has_room_for_it(open_chat, server):
    """Nothing is wider than the screen, and fingers find every button."""
    chat = await open_chat(**PHONE)
    server.script = answering(MARKDOWN + "\n" + "x" * 300 + "\n\n```\n" + "y" * 300 + "\n```\n")
    await chat.ask("z" * 300)
    await chat.is_idle()
    width = await chat.run("() => document.documentElement.scrollWidth")
    assert width == PHONE["viewport"]["width"]
    assert await chat.run(
        "() => { const s = document.querySelector('#scroller');"
        " return s.scrollWidth <= s.clientWidth }"
    )
    small = await chat.page.locator("button:visible, select:visible").evaluate_all(
        "(all, least) => all.map((e) => [e.ariaLabel ?? e.id, e.getBoundingClientRect()])"
        ".filter(([, r]) => r.height < least || r.width < least).map(([name]) => name)",
        MIN_TARGET_PIXELS,
    )
    assert small == []


async def test_on_a_phone_the_conversations_slide_in(open_chat, server):
    """They cover the page until one is chosen, or Esc leads back to the button."""
    chat = await open_chat(**PHONE)
    await talk(chat, server)
    sidebar = chat.page.locator("#sidebar")
    await expect(sidebar).to_be_hidden()
    await chat.button("Conversations").click()
    await expect(chat.button("New conversation")).to_be_focused()
    await chat.page.keyboard.press("Escape")
    await expect(sidebar).to_be_hidden()
    await expect(chat.button("Conversations")).to_be_focused()
    await chat.button("Conversations").click()
    await chat.button("New conversation").click()
    await expect(sidebar).to_be_hidden()
    await expect(chat.answers).to_have_count(0)
    await expect(chat.question).to_be_focused()
