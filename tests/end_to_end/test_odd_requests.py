"""What other servers have stumbled over, asked of the default model."""

from __future__ import annotations

import re
from itertools import pairwise

import aiohttp
import pytest

from tests.gateway import case_scripts

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

# The scripts that tell more of a model that makes words than of a simulated one.
SCRIPTS = [
    case_scripts.tiny_temperature_is_greedy,
    case_scripts.streamed_characters_are_whole,
    case_scripts.logprobs_join_to_the_text,
    case_scripts.two_answers_stream,
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
async def test_script(stack, script):
    """The service does right by the script."""
    async with aiohttp.ClientSession(stack.url) as session:
        await script(session)
    await stack.all_returned()


async def test_json_does_not_fall_into_spaces(stack):
    """A small model that may write any JSON object does not write spaces for ever."""
    body = {
        "messages": [{"role": "user", "content": "Give me a JSON object"}],
        "response_format": {"type": "json_object"},
        "max_tokens": 60,
        "temperature": 0,
    }
    async with (
        stack.open_http() as http,
        http.post("/v1/chat/completions", json=body) as response,
    ):
        content = (await response.json())["choices"][0]["message"]["content"]
    assert content.startswith("{")
    assert re.search(r"\s{33,}", content) is None


async def test_a_prompt_is_judged_alike_as_text_and_as_tokens(stack):
    """The arrays of an echo are the text of the prompt, whichever way it was given."""
    prompt = "The capital of France is Paris 🌍."
    body = {"max_tokens": 0, "echo": True, "logprobs": 1}
    async with stack.open_http() as http:
        async with http.post("/v1/tokenize", json={"prompt": prompt}) as response:
            tokens = (await response.json())["tokens"]
        choices = []
        for given in (prompt, tokens):
            async with http.post("/v1/completions", json={"prompt": given, **body}) as response:
                choices += (await response.json())["choices"]
    assert choices[0] == choices[1]
    assert choices[0]["text"] == prompt
    logprobs = choices[0]["logprobs"]
    assert len(logprobs["tokens"]) == len(tokens)
    starts = [*logprobs["text_offset"], len(prompt)]
    for token, (start, end) in zip(logprobs["tokens"], pairwise(starts), strict=True):
        assert token.startswith("bytes:") or prompt[start:end] == token
    paris = logprobs["tokens"].index(" Paris")
    assert logprobs["token_logprobs"][paris] > -1.5
