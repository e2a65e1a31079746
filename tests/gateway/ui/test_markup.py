"""What answers look like, and what they cannot do."""

import pytest
from playwright.async_api import expect

from tests.gateway.ui.conftest import answering

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

CODE = 'def greet(name):\n    return f"<b>{name}</b>"\n'
MARKDOWN = f"""# Title

Some **bold** text, `code` and [a link](https://example.org/page).

```python
{CODE}```

| word | count |
|------|------:|
| river | 12 |

3. third
4. fourth
"""
HOSTILE = """<script>window.hacked = 1</script>
<img src=x onerror="window.hacked = 1">
<iframe srcdoc="<script>parent.hacked = 1</script>"></iframe>
<svg onload="window.hacked = 1"><a href="javascript:window.hacked = 1">x</a></svg>
<style>body { display: none }</style>
<form action="https://evil.example/"><input name="q"></form>

[link](javascript:window.hacked=1) [data](data:text/html,<script>hacked=1</script>)
![picture](https://evil.example/pixel.png)
![x](x"onerror="window.hacked=1)
<a href="https://evil.example" id="question" class="dialog">fake</a>

```"><script>window.hacked=1</script>
<script>window.hacked = 1</script>
```
"""


async def test_markdown_becomes_elements(chat, server):
    """Headings, emphasis, code, tables, lists and links are what they are meant to be."""
    server.script = answering(*MARKDOWN)
    await chat.ask("Show me")
    await chat.is_idle()
    answer = chat.answers.last
    await expect(answer.get_by_role("heading", name="Title")).to_be_visible()
    await expect(answer.locator("strong")).to_have_text("bold")
    await expect(answer.get_by_role("cell", name="12")).to_have_css("text-align", "right")
    await expect(answer.locator("ol")).to_have_attribute("start", "3")
    link = answer.get_by_role("link", name="a link")
    await expect(link).to_have_attribute("href", "https://example.org/page")
    await expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    await expect(answer.locator("pre")).to_have_text(CODE.rstrip("\n"))
    await expect(answer.locator(".language")).to_have_text("python")


async def test_code_and_answers_can_be_copied(open_chat, server):
    """The buttons copy the code as it is, and the answer as the model wrote it."""
    chat = await open_chat(permissions=["clipboard-read", "clipboard-write"])
    server.script = answering(MARKDOWN)
    await chat.ask("Show me")
    await chat.is_idle()
    for name, text in (("Copy the code", CODE.rstrip("\n")), ("Copy the text", MARKDOWN)):
        await chat.answers.last.get_by_role("button", name=name).click()
        await expect(chat.page.locator("#announcer")).to_contain_text("Copied.")
        copied = await chat.run("() => navigator.clipboard.readText()")
        assert copied.rstrip("\n") == text.rstrip("\n")


async def test_what_does_not_change_stays_as_it_is(chat, held, server):
    """A paragraph that is complete is the same element while the rest arrives."""
    await chat.ask("Tell me")
    await chat.says("Once upon")
    root = await chat.answers.last.element_handle()
    held.over.set()
    await chat.says("Once upon a time.")
    await chat.is_idle()
    assert await chat.run("(root) => root.isConnected", root)


async def test_markup_in_an_answer_is_text(chat, server):
    """Nothing of it runs, loads, navigates or takes the place of the page."""
    server.script = answering(*(HOSTILE[i : i + 5] for i in range(0, len(HOSTILE), 5)))
    await chat.ask("Attack")
    await chat.says("<script>window.hacked = 1</script>")
    await chat.is_idle()
    bad = "script, img, iframe, svg:not([aria-hidden]), style, form, input, [onerror], [id]"
    await expect(chat.answers.last.locator(f".answer-text :is({bad})")).to_have_count(0)
    links = await chat.answers.last.locator(".answer-text a[href]").evaluate_all(
        "links => links.map(link => link.protocol)"
    )
    assert set(links) <= {"https:"}
    assert await chat.run("() => window.hacked") is None
    assert chat.hosts == {chat.url.split("/")[2]}
    await expect(chat.question).to_be_visible()


@pytest.mark.parametrize("unit", [">", "1. ", "- ", "[", "![", "*", "_a ", "`", "<", "|", "a**b"])
async def test_a_model_that_repeats_itself_does_not_break_the_page(chat, server, unit):
    """Markup that is nested without end is shown all the same, and the next question answered."""
    server.script = answering(*([unit * 500] * 10))
    await chat.ask("Loop")
    await chat.is_idle()
    server.script = answering("Well again.")
    await chat.ask("And now?")
    await chat.says("Well again.")
    await chat.is_idle()


async def test_questions_are_text(chat, server):
    """What a person writes is shown as it was written, here and among the conversations."""
    markup = "<img src=x onerror=window.hacked=1> **not bold**"
    await chat.ask(markup)
    await expect(chat.page.locator(".question-text")).to_have_text(markup)
    await expect(chat.conversations.locator(".title")).to_have_text(markup)
    assert await chat.run("() => window.hacked") is None


async def test_the_browser_itself_refuses_what_the_cleaner_would_miss(chat):
    """Markup and scripts that do not come in files of the page are stopped by its policy."""
    refused = await chat.run(
        """() => {
          const attempts = [
            () => { document.body.lastElementChild.innerHTML = "<b>x</b>" },
            () => { document.createElement("script").text = "window.hacked = 1" },
            () => { setTimeout("window.hacked = 1") },
          ];
          return attempts.map((attempt) => {
            try { attempt(); return "done" } catch (error) { return error.constructor.name }
          });
        }"""
    )
    assert "done" not in refused
    # At once it would be the driver who evaluates.
    late = "() => new Promise((tell) => setTimeout(() => {"
    late += " try { eval('window.hacked = 1'); tell('done') } catch (e) { tell(e.name) } }))"
    assert await chat.run(late) == "EvalError"
    reach = "() => fetch('https://evil.example/').then(() => 'reached', () => 'refused')"
    assert await chat.run(reach) == "refused"
    assert await chat.run("() => window.hacked") is None
    chat.faults.clear()  # the browser reports each of them
