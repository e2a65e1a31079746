"""Questions and answers on the chat page, in front of a scripted server."""

import asyncio
import re

import grpc
import pytest
from playwright.async_api import expect

from headrace.v1.stopping_pb2 import FINISH_REASON_MAX_OUTPUT_TOKENS
from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, Refusal, end, piece
from tests.gateway.ui.conftest import answering

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


async def was_cancelled(call):
    return await asyncio.to_thread(call.wait_until_cancelled)


async def test_an_answer_streams(chat, held):
    """The first words are there before the last ones are made; then it says how fast it was."""
    await chat.ask("Tell me a story")
    await chat.says("Once upon")
    await expect(chat.button("Stop")).to_be_visible()
    await expect(chat.answers.last).to_have_attribute("aria-busy", "true")
    await expect(chat.page.locator("#announcer")).to_be_empty()
    held.over.set()
    await chat.says("Once upon a time.")
    await chat.is_idle()
    await expect(chat.answers.last).to_have_attribute("aria-busy", "false")
    facts = re.compile(r"3 tokens · ([\d.]+ tokens/s · )?first token after [\d.]+ m?s")
    await expect(chat.answers.last).to_contain_text(facts)
    await expect(chat.page.locator("#announcer")).to_have_text("Answer: Once upon a time.")


async def test_reasoning_is_folded_above_its_answer(chat, server):
    """What the model thinks can be opened; the model does not get it back as its words."""
    hold = Hold()

    def script(request):
        yield Admit()
        thought = piece("", 1)
        thought.deltas[0].reasoning_text = "They want a greeting."
        yield thought
        yield hold
        yield end("Hello.", 2)

    server.script = script
    await chat.ask("Greet me")
    fold = chat.answers.last.get_by_text("Thinking …")
    await expect(fold).to_be_visible()
    hold.over.set()
    await chat.says("Hello.")
    await chat.is_idle()
    thought = chat.answers.last.get_by_text("They want a greeting.")
    await expect(thought).to_be_hidden()
    await chat.answers.last.get_by_text("Reasoning").click()
    await expect(thought).to_be_visible()
    await chat.ask("And again")
    await chat.is_idle()
    texts = [message.content for message in server.calls[1].request.chat.messages]
    assert texts == ["Greet me", "Hello.", "And again"]


@pytest.mark.parametrize("how", ["button", "key"])
async def test_stop_ends_the_work(chat, server, held, how):
    """Stop closes the call in the server, keeps the text, and the next question can be asked."""
    await chat.ask("Tell me a story")
    await chat.says("Once upon")
    if how == "button":
        await chat.button("Stop").click()
    else:
        await chat.page.keyboard.press("Escape")
    assert await was_cancelled(server.calls[0])
    await chat.is_idle()
    await chat.says("Once upon")
    await chat.says("Stopped · first token after")
    await expect(chat.question).to_be_focused()
    server.script = answering("Gladly.")
    await chat.ask("Another one")
    await chat.says("Gladly.")


async def test_the_server_gets_the_whole_conversation(chat, server):
    """Each question goes along with what was said before, under the name of the chosen model."""
    for number in ("one", "two"):
        server.script = answering(f"Answer {number}.")
        await chat.ask(f"Question {number}")
        await chat.says(f"Answer {number}.")
        await chat.is_idle()
    request = server.calls[1].request
    texts = [message.content for message in request.chat.messages]
    assert texts == ["Question one", "Answer one.", "Question two"]
    assert request.model == "tiny"


async def test_the_model_can_be_chosen(chat, server):
    """All names are there; the choice outlives the page."""
    select = chat.page.get_by_label("Model")
    await expect(select.locator("option")).to_have_text(["tiny", "small"])
    await select.select_option("small")
    await chat.reload()
    await expect(select).to_have_value("small")
    await chat.ask("Hello")
    await chat.says("Hello")
    assert server.calls[0].request.model == "small"


async def test_parameters_go_along(chat, server):
    """What is set goes to the server, in this conversation and in new ones; the rest does not."""
    await chat.button("Settings").click()
    dialog = chat.page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    for label, text in {
        "System prompt": "Be brief.",
        "Temperature": "0.25",
        "Maximum tokens": "7",
        "Seed": "-3",
        "Stop at": "\nEND\n###",
    }.items():
        await dialog.get_by_label(label).fill(text)
    await chat.button("Save").click()
    await expect(dialog).to_be_hidden()
    for _ in range(2):
        await chat.ask("Hello")
        await chat.says("Hello")
        await chat.button("New conversation").click()
    for call in server.calls:
        request = call.request
        assert [message.content for message in request.chat.messages] == ["Be brief.", "Hello"]
        assert request.sampling.temperature == 0.25
        assert not request.sampling.HasField("top_p")
        assert request.sampling.seed == -3
        assert request.stopping.max_output_tokens == 7
        assert list(request.stopping.stop_sequences) == ["END", "###"]


async def test_settings_that_cannot_be_are_not_taken(chat):
    """The browser points at the field that is out of range."""
    await chat.button("Settings").click()
    await chat.page.get_by_label("Temperature").fill("3")
    await chat.button("Save").click()
    await expect(chat.page.get_by_role("dialog")).to_be_visible()
    await expect(chat.page.get_by_label("Temperature")).to_be_focused()


async def test_an_answer_that_was_cut_says_so(chat, server):
    """An end by the maximum of tokens is not taken for the end of the thought."""

    def script(request):
        yield Admit()
        yield end("Once", 1, reason=FINISH_REASON_MAX_OUTPUT_TOKENS)

    server.script = script
    await chat.ask("Tell me a story")
    await chat.says("Reached the maximum of tokens")


async def test_the_last_question_can_be_changed(chat, server):
    """A changed question takes the place of the old one and its answer; Esc leaves both."""
    server.script = answering("First.")
    await chat.ask("Qestion")
    await chat.says("First.")
    await chat.is_idle()
    await chat.button("Edit the question").click()
    await chat.page.keyboard.press("Escape")
    await expect(chat.question).to_have_value("")
    await chat.button("Edit the question").click()
    await expect(chat.question).to_have_value("Qestion")
    server.script = answering("Second.")
    await chat.ask("Question")
    await chat.says("Second.")
    await expect(chat.answers).to_have_count(1)
    assert [message.content for message in server.calls[1].request.chat.messages] == ["Question"]


async def test_a_question_can_be_answered_again(chat, server):
    """The new answer takes the place of the old one."""
    server.script = answering("First.")
    await chat.ask("Question")
    await chat.says("First.")
    server.script = answering("Second.")
    await chat.button("Answer again").click()
    await chat.says("Second.")
    await expect(chat.answers).to_have_count(1)
    assert [message.content for message in server.calls[1].request.chat.messages] == ["Question"]


async def test_a_refusal_is_told_in_words_and_can_be_tried_again(chat, server):
    """A full queue says when to come back; then the same question is answered."""
    words = "The queue is full."

    def script(request):
        yield Refusal(
            grpc.StatusCode.RESOURCE_EXHAUSTED, words, "OVERLOADED", retry_after_seconds=3
        )

    server.script = script
    await chat.ask("Hello")
    alert = chat.page.get_by_role("alert")
    await expect(alert).to_contain_text("The server is busy")
    await expect(alert).to_contain_text(f"{words} Try again in 3 seconds.")
    server.script = answering("Hello back.")
    await chat.button("Try again").click()
    await chat.says("Hello back.")
    await expect(alert).to_have_count(0)
    assert [message.content for message in server.calls[1].request.chat.messages] == ["Hello"]


async def test_an_error_within_an_answer_keeps_its_text(chat, server):
    """What was said before the error stays, and the error stands below it."""

    def script(request):
        yield Admit()
        yield piece("Once upon", 1)
        yield Refusal(grpc.StatusCode.UNAVAILABLE, "The engine was lost.", "ENGINE_UNAVAILABLE")

    server.script = script
    await chat.ask("Tell me a story")
    await chat.says("Once upon")
    alert = chat.page.get_by_role("alert")
    await expect(alert).to_contain_text("The answer broke off")
    await expect(alert).to_contain_text("The engine was lost.")


async def test_a_lost_network_is_told_and_can_be_tried_again(chat, server):
    """Without a connection the page says so; with one again the question is answered."""
    await chat.page.context.set_offline(True)
    await chat.ask("Hello")
    await expect(chat.page.get_by_role("alert")).to_contain_text("The connection was lost")
    await chat.page.context.set_offline(False)
    server.script = answering("Here I am.")
    await chat.button("Try again").click()
    await chat.says("Here I am.")


async def test_a_server_that_loads_is_waited_for(open_chat, server):
    """The page says how far loading is, and has the models by itself once they are there."""
    words = "The model is not ready yet (loading weights, 40 %); try again."
    server.model_refusal = Refusal(
        grpc.StatusCode.UNAVAILABLE, words, "ENGINE_UNAVAILABLE", retry_after_seconds=1.0
    )
    chat = await open_chat()
    status = chat.page.get_by_role("status")
    await expect(status).to_contain_text(f"The server is not ready. {words}")
    server.model_refusal = None
    await expect(status).to_be_empty()
    await expect(chat.page.get_by_label("Model")).to_have_value("tiny")


async def test_a_key_is_asked_for_and_sent(open_chat, server):
    """A server that wants a key is told of it; it is forgotten with the tab unless it is kept."""
    server.model_refusal = Refusal(
        grpc.StatusCode.UNAUTHENTICATED, "The API key is missing.", "UNAUTHENTICATED"
    )
    chat = await open_chat()
    await expect(chat.page.get_by_role("status")).to_contain_text("The server asks for an API key")
    server.model_refusal = None
    for is_kept in (False, True):
        await chat.button("Settings").click()
        await chat.page.get_by_label("API key").fill("secret")
        await chat.page.get_by_label("Keep the key in this browser").set_checked(is_kept)
        async with chat.page.expect_request("**/v1/models") as asked:
            await chat.button("Save").click()
        headers = await (await asked.value).all_headers()
        assert headers["authorization"] == "Bearer secret"
        kept = await chat.run("() => localStorage.getItem('headrace.api-key')")
        assert kept == ("secret" if is_kept else None)


async def test_answers_in_the_background_go_on(chat, server, held):
    """Another conversation does not wait for the first one, and both are whole in the end."""
    await chat.ask("Tell me a story")
    await chat.says("Once upon")
    server.script = answering("Quickly.")
    await chat.button("New conversation").click()
    await chat.ask("Something else")
    await chat.says("Quickly.")
    held.over.set()
    await chat.conversations.get_by_role("button", name="Tell me a story").first.click()
    await chat.says("Once upon a time.")


async def test_a_running_answer_that_is_deleted_ends(chat, server, held):
    """Nobody reads it any more, so nothing works for it."""
    await chat.ask("Tell me a story")
    await chat.says("Once upon")
    await chat.button("Change “Tell me a story”").click()
    await chat.button("Delete").click()
    assert await was_cancelled(server.calls[0])
    await expect(chat.conversations).to_have_count(0)
    await expect(chat.answers).to_have_count(0)


async def test_the_page_follows_only_a_reader_at_the_end(chat, server):
    """New text scrolls into view, unless the reader has gone up; a button leads back."""
    holds = [Hold(), Hold()]

    def script(request):
        yield Admit()
        for hold in holds:
            yield piece("A line.\n\n" * 60, 1)
            yield hold
        yield end("The last line.", 1)

    server.script = script
    await chat.ask("Tell me a story")
    assert await asyncio.to_thread(holds[0].reached.wait, BOUND_SECONDS)
    at_end = "() => { const s = document.querySelector('#scroller');"
    at_end += " return s.scrollTop > 0 && s.scrollHeight - s.scrollTop - s.clientHeight < 48 }"
    await chat.page.wait_for_function(at_end)
    await chat.page.get_by_role("region", name="Messages").focus()
    await chat.page.keyboard.press("Home")
    top = "() => document.querySelector('#scroller').scrollTop === 0"
    await chat.page.wait_for_function(top)
    for hold in holds:
        hold.over.set()
    await chat.is_idle()
    await chat.says("The last line.")
    assert await chat.run(top)
    await chat.button("Go to the newest text").click()
    await chat.page.wait_for_function(at_end)
