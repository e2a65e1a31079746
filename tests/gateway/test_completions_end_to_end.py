"""Completions in front of the server with its simulated engine, in processes of their own."""

import json
import math
import re

import aiohttp
import pytest

from tests.gateway.conftest import events_of

TEXT = "/v1/completions"
PROMPT = "Once upon a time 🌍"
BOUND_SECONDS = 60.0


@pytest.fixture
async def session(service):
    timeout = aiohttp.ClientTimeout(total=BOUND_SECONDS)
    async with aiohttp.ClientSession(service.url, timeout=timeout) as session:
        yield session


async def whole(session, **body):
    async with session.post(TEXT, json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def streamed(session, **body):
    """Return the choices of a stream, joined, by their indices."""
    async with session.post(TEXT, json={**body, "stream": True}) as response:
        assert response.status == 200, await response.text()
        *events, done = events_of(await response.text())
    assert done == "[DONE]"
    joined = {}
    for event in events:
        [piece] = event["choices"]
        before = joined.setdefault(piece["index"], dict.fromkeys(piece))
        for key, value in piece.items():
            before[key] = join(before.get(key), value)
    return [joined[index] | {"index": index} for index in sorted(joined)]


def join(before, value):
    if before is None or value is None or isinstance(value, int):
        return before if value is None else value
    if isinstance(value, dict):
        return {key: before[key] + value[key] for key in value}
    return before + value


def bytes_of(token):
    """Return the bytes of a token as the arrays show it."""
    escaped = re.fullmatch(r"bytes:((?:\\x[0-9a-f]{2})+)", token)
    return bytes.fromhex(escaped[1].replace("\\x", "")) if escaped else token.encode()


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
async def test_the_arrays_are_the_text(session, echo, seed):
    """The bytes of the tokens join to the text, each place is that of its token, and all that
    can be checked of likelihoods holds.
    """
    body = {"prompt": PROMPT, "max_tokens": 40, "ignore_eos": True, "temperature": 1, "seed": seed}
    answer = await whole(session, **body, logprobs=3, echo=echo)
    [choice] = answer["choices"]
    logprobs = choice["logprobs"]
    assert len({len(values) for values in logprobs.values()}) == 1
    num_tokens = answer["usage"]["total_tokens" if echo else "completion_tokens"]
    assert len(logprobs["tokens"]) == num_tokens
    joined = b"".join(bytes_of(token) for token in logprobs["tokens"])
    assert joined.decode("utf-8", "replace") == choice["text"]
    assert choice["text"].startswith(PROMPT) == echo
    before = b""
    for token, place in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        complete = before.decode("utf-8", "ignore")
        assert place == len(complete)
        before += bytes_of(token)
    told = zip(
        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
    )
    for index, (token, logprob, top) in enumerate(told):
        if echo and index == 0:
            assert (logprob, top) == (None, None)
            continue
        assert math.isfinite(logprob)
        assert logprob <= 0
        assert top[token] == logprob
        assert 3 <= len(top) <= 4


@pytest.mark.parametrize("echo", [False, True])
async def test_a_stream_joins_to_the_whole_answer(session, echo):
    """Texts, arrays and ids of the pieces are those of the whole, with several of everything."""
    body = {
        "prompt": [PROMPT, "Another", "A third"],
        "n": 2,
        "max_tokens": 12,
        "ignore_eos": True,
        "temperature": 1,
        "seed": 5,
        "logprobs": 2,
        "echo": echo,
        "return_token_ids": True,
    }
    choices = (await whole(session, **body))["choices"]
    assert [choice["index"] for choice in choices] == list(range(6))
    assert await streamed(session, **body) == choices
    for choice in choices:
        assert len(choice["token_ids"]) == 12
        num_prompt_tokens = len(choice["prompt_token_ids"]) if echo else 0
        assert len(choice["logprobs"]["tokens"]) == 12 + num_prompt_tokens


async def test_prompts_of_text_and_of_ids_are_alike(session):
    """The ids that are told of a text give the same answer, and the same echo."""
    body = {
        "max_tokens": 5,
        "temperature": 0,
        "logprobs": 1,
        "return_token_ids": True,
        "echo": True,
    }
    [of_text] = (await whole(session, prompt=PROMPT, **body))["choices"]
    [of_ids] = (await whole(session, prompt=of_text["prompt_token_ids"], **body))["choices"]
    assert of_ids == of_text
    [one_of_list] = (await whole(session, prompt=[of_text["prompt_token_ids"]], **body))["choices"]
    assert one_of_list == of_text


async def test_a_prompt_alone_is_judged(session):
    """With an echo and no tokens to make, each choice is its prompt with its log probabilities."""
    body = {"prompt": [PROMPT, "B"], "max_tokens": 0, "echo": True, "logprobs": 0}
    answer = await whole(session, **body)
    assert [choice["text"] for choice in answer["choices"]] == [PROMPT, "B"]
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length"] * 2
    counts = [len(choice["logprobs"]["tokens"]) for choice in answer["choices"]]
    assert (sum(counts), answer["usage"]["completion_tokens"]) == (
        answer["usage"]["prompt_tokens"],
        0,
    )
    rivals = answer["choices"][0]["logprobs"]["top_logprobs"]
    assert [top and len(top) for top in rivals] == [None] + [1] * (counts[0] - 1)
    assert await streamed(session, **body) == answer["choices"]


async def test_the_best_of_several_answers(session):
    """It is that of them whose tokens are the likeliest; all of them are counted."""
    body = {"prompt": PROMPT, "max_tokens": 8, "ignore_eos": True, "temperature": 2, "seed": 3}
    every = await whole(session, **body, n=4, logprobs=0)

    def mean(choice):
        return sum(choice["logprobs"]["token_logprobs"]) / 8

    expected = sorted(every["choices"], key=mean, reverse=True)
    best = await whole(session, **body, n=2, best_of=4)
    assert [choice["text"] for choice in best["choices"]] == [c["text"] for c in expected[:2]]
    assert [choice["index"] for choice in best["choices"]] == [0, 1]
    assert [choice["logprobs"] for choice in best["choices"]] == [None, None]
    assert best["usage"]["completion_tokens"] == 32


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": 2**40}, "logprobs"),
        ({"logprobs": 21, "echo": True, "max_tokens": 0}, "logprobs"),
        ({"best_of": 17}, "best_of"),
        ({"n": 2_000_000_000}, "n"),
        ({"n": -5}, "n"),
        ({"n": 2_000_000_000, "best_of": 2_000_000_001}, "best_of"),
        ({"suffix": "and so on"}, "suffix"),
        ({"prompt": [99_999_999], "echo": True}, "prompt"),
        ({"prompt": [], "echo": True}, "prompt"),
        ({"prompt": [[]], "return_token_ids": True}, "prompt"),
    ],
)
async def test_a_bad_wish_is_refused_by_its_name(session, fields, param):
    """The refusal names the field of the body, whatever the server calls it."""
    body = {"prompt": PROMPT, "max_tokens": 2, **fields}
    async with session.post(TEXT, json=body) as response:
        error = json.loads(await response.text())["error"]
    assert (response.status, error["param"]) == (400, param)
    assert "output." not in error["message"]
