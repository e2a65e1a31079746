"""Cases that take more than one request to tell right from wrong.

Each function takes a session of the service and fails with an AssertionError.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import defaultdict

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
MESSAGES = [{"role": "user", "content": "Hey"}]
BOUND_SECONDS = 60.0
NUM_CALLERS = 20
FORM = "🌍 naïve e\u0301 世界 👩\u200d👩\u200d👧"


async def ask(session, path, **body):
    async with session.post(path, json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def stream(session, path, **body):
    """Return the events of a stream that ends well, each of which must be UTF-8 by itself."""
    async with session.post(path, json={**body, "stream": True}) as response:
        assert response.status == 200, await response.text()
        raw = await response.read()
    blocks = [block for block in raw.split(b"\n\n") if block and not block.startswith(b":")]
    *events, done = [block.decode("utf-8").removeprefix("data: ") for block in blocks]
    assert done == "[DONE]"
    return [json.loads(event) for event in events]


async def tiny_temperature_is_greedy(session):
    """A temperature next to 0 gives the answer of 0, and not nothing."""
    body = {"messages": MESSAGES, "max_tokens": 12, "ignore_eos": True}
    texts = set()
    for temperature in (0, 1e-7, 1e-30, 1e-45):
        answer = await ask(session, CHAT, **body, temperature=temperature)
        texts.add(answer["choices"][0]["message"]["content"])
    assert len(texts) == 1
    assert texts != {""}


async def streamed_characters_are_whole(session):
    """A character of several tokens is in one piece, and the pieces are the whole text."""
    forms = [
        {"guided_choice": [FORM]},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"const": FORM}}}},
    ]
    for form in forms:
        body = {"messages": MESSAGES, "max_tokens": 200, "temperature": 1, "seed": 1, **form}
        events = await stream(session, CHAT, **body)
        deltas = [event["choices"][0]["delta"].get("content") or "" for event in events]
        assert [delta for delta in deltas if "\ufffd" in delta] == []
        answer = await ask(session, CHAT, **body)
        text = answer["choices"][0]["message"]["content"]
        assert "".join(deltas) == text
        assert (json.loads(text) if "response_format" in form else text) == FORM


async def logprobs_join_to_the_text(session):
    """The bytes of all tokens are the text; the chosen one is the likeliest when that is asked."""
    body = {"max_tokens": 40, "temperature": 0, "top_logprobs": 3}
    answer = await ask(session, CHAT, messages=MESSAGES, logprobs=True, **body)
    [choice] = answer["choices"]
    tokens = choice["logprobs"]["content"]
    assert len(tokens) == answer["usage"]["completion_tokens"]
    joined = b"".join(bytes(token["bytes"]) for token in tokens)
    assert joined.decode("utf-8", "replace") == choice["message"]["content"]
    for token in tokens:
        assert math.isfinite(token["logprob"])
        assert token["logprob"] <= 0
        likeliest = token["top_logprobs"][0]
        assert likeliest["logprob"] == token["logprob"]
        # The end of the text adds nothing to it; among the likeliest it has a name.
        is_end = token is tokens[-1] and choice["finish_reason"] == "stop"
        assert token["bytes"] == ([] if is_end else likeliest["bytes"])


async def usage_is_opt_in(session):
    """Usage is in no event, or in one more event before the end, as the caller asks."""
    body = {"messages": MESSAGES, "max_tokens": 4, "seed": 1}
    for options in (None, {}, {"include_usage": False}):
        for event in await stream(session, CHAT, **body, stream_options=options):
            assert "usage" not in event
    *events, last = await stream(session, CHAT, **body, stream_options={"include_usage": True})
    assert [event["usage"] for event in events] == [None] * len(events)
    assert last["choices"] == []
    usage = (await ask(session, CHAT, **body))["usage"]
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert last["usage"][name] == usage[name]
    async with session.post(CHAT, json={**body, "stream_options": {}}) as response:
        assert response.status == 400


async def two_answers_stream(session):
    """Each answer has its role and its end; with a seed they differ, and come again."""
    body = {"messages": MESSAGES, "n": 2, "seed": 7, "temperature": 1, "max_tokens": 10}
    body |= {"ignore_eos": True, "stream_options": {"include_usage": True}}
    runs = []
    for _ in range(2):
        *events, last = await stream(session, CHAT, **body)
        texts, roles, ends = defaultdict(str), [], []
        for event in events:
            [choice] = event["choices"]
            texts[choice["index"]] += choice["delta"].get("content") or ""
            roles += [choice["index"]] * ("role" in choice["delta"])
            ends += [choice["index"]] * (choice["finish_reason"] is not None)
        assert sorted(roles) == sorted(ends) == [0, 1]
        assert last["usage"]["completion_tokens"] == 20
        runs.append(dict(texts))
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[0][1]


async def callers_who_leave_free_the_service(session):
    """Streams whose callers have left are over in the gateway, and new ones start."""
    await _leave(session, n=1)


async def callers_who_leave_two_answers_free_the_service(session):
    """Both answers to such a caller are over."""
    await _leave(session, n=2)


async def _leave(session, n):
    body = {"prompt": "Once", "max_tokens": 8000, "ignore_eos": True, "stream": True, "n": n}
    for _ in range(NUM_CALLERS):
        async with session.post(TEXT, json=body) as response:
            assert response.status == 200
            await response.content.readuntil(b"\n\n")
            response.close()
    async with asyncio.timeout(BOUND_SECONDS):
        while await _load(session):
            pass
    await ask(session, TEXT, prompt="Once", max_tokens=1)


async def _load(session):
    async with session.get("/load") as response:
        return (await response.json())["server_load"]
