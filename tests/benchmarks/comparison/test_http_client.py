"""The load client against servers that speak as the peers do."""

import pytest
from aiohttp import web

from comparison.http_client import http_client
from comparison.load import RequestFailedError

TEXT = 'data: {"choices":[{"index":0,"text":"%s"}]}\n\n'
USAGE = 'data: {"choices":[],"usage":{"prompt_tokens":8,"completion_tokens":3}}\n\n'
LAST_WITH_USAGE = (
    'data: {"choices":[{"text":"","finish_reason":"length"}],'
    '"usage":{"prompt_tokens":8,"completion_tokens":3}}\n\n'
)
DONE = "data: [DONE]\n\n"


class ScriptedServer:
    """Answers every completion with the same text of an event stream."""

    def __init__(self, events, status=200):
        self._events = events
        self._status = status
        self.bodies = []

    async def answer(self, request):
        self.bodies.append(await request.json())
        return web.Response(
            status=self._status, text="".join(self._events), content_type="text/event-stream"
        )

    async def __aenter__(self):
        app = web.Application()
        app.router.add_post("/v1/completions", self.answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        [(_, port)] = self._runner.addresses
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()


async def ask(server, fields=None):
    async with http_client(server.url, fields or {}) as client:
        return await client.ask("prompt", 3)


@pytest.mark.parametrize(
    "events",
    [
        [TEXT % "a", TEXT % "b", USAGE, DONE],
        [TEXT % "", TEXT % "a", ": comment\n\n", TEXT % "b", LAST_WITH_USAGE],
    ],
    ids=["usage in an event of its own", "usage with the last choice, and no end mark"],
)
async def test_pieces_of_text_and_usage_are_read(events):
    """Only text that is not empty counts as a piece."""
    async with ScriptedServer(events) as server:
        answer = await ask(server)
    assert len(answer.piece_seconds) == 2
    assert (answer.num_prompt_tokens, answer.num_output_tokens) == (8, 3)
    assert answer.begin_seconds <= answer.piece_seconds[0] <= answer.end_seconds


async def test_the_body_holds_prompt_length_and_the_fields_of_the_peer():
    """Every peer has its own way to say that the end of the text ends nothing."""
    async with ScriptedServer([TEXT % "a", USAGE, DONE]) as server:
        await ask(server, {"ignore_eos": True})
    assert server.bodies == [
        {"prompt": "prompt", "max_tokens": 3, "stream": True, "ignore_eos": True}
    ]


@pytest.mark.parametrize(
    ("events", "status", "complaint"),
    [
        (["no such model"], 404, "HTTP 404: no such model"),
        ([TEXT % "a", 'data: {"error": "out of memory"}\n\n'], 200, "out of memory"),
        ([TEXT % "a", DONE], 200, "ended without its usage"),
        (["data: {\n\n"], 200, "DecodeError"),
    ],
)
async def test_a_refusal_or_a_broken_answer_is_told(events, status, complaint):
    """It must not become a figure."""
    async with ScriptedServer(events, status) as server:
        with pytest.raises(RequestFailedError, match=complaint):
            await ask(server)
