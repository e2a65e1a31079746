"""The load client over HTTP with servers that answer oddly."""

import json
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from headrace.cli.bench.endpoint import RequestFailedError
from headrace.cli.bench.http_endpoint import HttpEndpoint


@asynccontextmanager
async def endpoint_of(answer):
    """An endpoint of a server that gives every request this answer."""
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with HttpEndpoint(
            f"http://127.0.0.1:{runner.addresses[0][1]}/v1/", "tiny"
        ) as endpoint:
            yield endpoint
    finally:
        await runner.cleanup()


def streaming(*events, is_whole=True):
    """An answer of events, which breaks off where it is not whole."""

    async def answer(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in events:
            data = event if isinstance(event, str) else json.dumps(event)
            await response.write(f"data: {data}\n\n".encode())
        if not is_whole:
            request.transport.abort()
        return response

    return answer


def choice(**fields):
    return {"choices": [{"index": 0, **fields}]}


async def read(endpoint):
    return [count async for count in endpoint.answer([1, 2], 9)]


async def test_the_request_is_that_of_the_completions_api():
    """Token ids, the exact length and the model are asked for, below the URL."""
    seen = []

    async def answer(request):
        seen.append((request.method, request.path, await request.json()))
        return await streaming("[DONE]")(request)

    async with endpoint_of(answer) as endpoint:
        assert await read(endpoint) == []
    body = {
        "model": "tiny",
        "prompt": [1, 2],
        "max_tokens": 9,
        "ignore_eos": True,
        "return_token_ids": True,
        "stream": True,
    }
    assert seen == [("POST", "/v1/completions", body)]


async def test_tokens_are_counted_by_their_ids():
    """A message counts by its ids, without ids as one where it has text, and else not at all."""
    events = [
        choice(text="", token_ids=None),
        choice(text="ab", token_ids=[1, 2, 3]),
        choice(text="", token_ids=[4]),
        choice(text="c"),
        choice(text="", finish_reason="length"),
        {"choices": [], "usage": {}},
        "[DONE]",
    ]
    async with endpoint_of(streaming(*events)) as endpoint:
        assert await read(endpoint) == [3, 1, 1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (streaming(choice(text="a")), "The answer broke off."),
        (streaming(choice(text="a"), is_whole=False), "The connection to http://.* broke off."),
        (streaming({"error": {"message": "No more."}}), "No more."),
        (streaming("{"), "/v1/completions gave no answer as OpenAI's API does."),
    ],
    ids=["no end", "broken", "error", "no JSON"],
)
async def test_an_answer_that_is_not_whole_fails(answer, words):
    """Whatever ends an answer before its end is told in a sentence."""
    async with endpoint_of(answer) as endpoint:
        with pytest.raises(RequestFailedError, match=words):
            await read(endpoint)


@pytest.mark.parametrize(
    ("status", "text", "words"),
    [
        (429, '{"error": {"message": "Too many requests."}}', "^Too many requests.$"),
        (502, "<html>", "^HTTP status 502.$"),
        (500, '{"error": "odd"}', "^HTTP status 500.$"),
    ],
)
async def test_a_refusal_is_told_in_the_servers_words(status, text, words):
    """The message of an error is passed on; without one the status is told."""

    async def answer(request):
        return web.Response(status=status, text=text)

    async with endpoint_of(answer) as endpoint:
        with pytest.raises(RequestFailedError, match=words):
            await read(endpoint)


@pytest.mark.parametrize("text", ["{}", "[]", '{"tokens": 3}', "no JSON"])
async def test_tokens_that_are_none_are_refused(text):
    """A server whose /tokenize gives something else is no such server."""

    async def answer(request):
        return web.Response(text=text, content_type="application/json")

    async with endpoint_of(answer) as endpoint:
        with pytest.raises(RequestFailedError, match="/v1/tokenize gave no answer as OpenAI's"):
            await endpoint.tokenize("a")
