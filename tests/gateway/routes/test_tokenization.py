"""POST /tokenize and /detokenize over HTTP, in front of a scripted server and of a real one."""

import io
import json

import aiohttp
import grpc
import pytest

from headrace_gateway.upstream import CONTROL_TIMEOUT_SECONDS
from tests.client.scripted_server import Refusal
from tests.gateway.service import MODEL

NEVER_SECONDS = 1e6
TEXTS = ["Once upon a time 🌍", "a", "<|im_end|> e\u0301"]


@pytest.mark.parametrize("path", ["/v1/tokenize", "/tokenize"])
async def test_a_prompt_in_tokens(gateway, server, path):
    """The tokens come with their number and the most that would fit."""
    async with gateway.post(path, {"prompt": "Hi"}) as response:
        assert (response.status, await response.json()) == (
            200,
            {"count": 3, "max_model_len": 2048, "tokens": [7, 8, 9]},
        )


@pytest.mark.parametrize("path", ["/v1/detokenize", "/detokenize"])
async def test_tokens_as_text(gateway, server, path):
    """The text has the name that vLLM's clients look for, and that of llama.cpp's."""
    async with gateway.post(path, {"tokens": [7, 8]}) as response:
        assert (response.status, await response.json()) == (
            200,
            {"prompt": "7 8", "content": "7 8"},
        )


async def test_an_unknown_model_is_refused(gateway, server):
    """One of the two answers that are needed is enough to refuse."""
    server.model_refusal = Refusal(grpc.StatusCode.NOT_FOUND, "No such model.", "MODEL_NOT_FOUND")
    status, error = await gateway.post_for_error("/tokenize", {"prompt": "a", "model": "x"})
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")


@pytest.mark.parametrize(
    ("path", "body"), [("/tokenize", {"prompt": "a"}), ("/detokenize", {"tokens": [7]})]
)
async def test_a_text_has_the_time_that_its_caller_has(gateway, server, path, body):
    """Long texts wait their turn: the limit of what is answered at once is not theirs."""
    async with gateway.post(path, body) as response:
        assert response.status == 200
    assert (server.text_time_remaining or NEVER_SECONDS) >= NEVER_SECONDS
    async with gateway.post(path, body, headers={"X-Request-Timeout": "100"}) as response:
        assert response.status == 200
    assert CONTROL_TIMEOUT_SECONDS < server.text_time_remaining < NEVER_SECONDS


@pytest.mark.parametrize("text", TEXTS)
async def test_text_survives_its_tokens(service, text):
    """What is tokenized comes back as it was."""
    async with aiohttp.ClientSession(service.url) as session:
        async with session.post("/tokenize", json={"prompt": text}) as response:
            body = await response.json()
        assert body["count"] == len(body["tokens"]) > 0
        assert body["max_model_len"] == 8192
        async with session.post("/detokenize", json={"tokens": body["tokens"]}) as response:
            assert (await response.json())["prompt"] == text


async def test_a_chat_has_the_tokens_that_its_answer_counts(service):
    """The number is that of the prompt tokens in the usage of the answer."""
    chat = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    async with aiohttp.ClientSession(service.url) as session:
        async with session.post("/v1/tokenize", json=chat) as response:
            count = (await response.json())["count"]
        async with session.post("/v1/chat/completions", json=chat) as response:
            assert (await response.json())["usage"]["prompt_tokens"] == count


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/tokenize", {"prompt": ""}, 400, "prompt"),
        ("/tokenize", {"content": "x" * 1_100_000}, 400, "content"),
        ("/tokenize", {"content": "x" * 4_500_000}, 413, None),
        ("/tokenize", {"messages": []}, 400, "messages"),
        ("/tokenize", {"prompt": "a", "model": "gpt-4"}, 404, "model"),
        ("/detokenize", {"tokens": [1, 99_999_999]}, 400, "tokens"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens"),
        ("/detokenize", {"tokens": [1], "model": "gpt-4"}, 404, "model"),
    ],
)
async def test_the_server_refuses_what_it_cannot_turn(service, path, body, status, param):
    """Its refusals are about the fields of the body."""
    data, headers = io.BytesIO(json.dumps(body).encode()), {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(service.url) as session,
        session.post(path, data=data, headers=headers) as response,
    ):
        error = (await response.json())["error"]
        assert (response.status, error["param"]) == (status, param)
        assert "token_ids" not in error["message"]
