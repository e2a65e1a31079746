"""The default model answers over every front, and as transformers does."""

from __future__ import annotations

import asyncio
import sys

import pytest

from tests.server.running_server import collect

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

QUESTION = "What is the capital of France?"


async def test_grpc_says_paris(stack):
    """A chat over gRPC is answered with Paris and the end of text."""
    responses = await collect(
        stack.server.generate(
            chat={"messages": [{"role": "ROLE_USER", "content": QUESTION}]},
            sampling={"temperature": 0},
            stopping={},
        )
    )
    text = "".join(delta.text for response in responses for delta in response.deltas)
    assert text == "The capital of France is Paris."


async def test_http_says_paris(stack):
    """A chat over HTTP is answered with the same words."""
    body = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0}
    async with (
        stack.open_http() as http,
        http.post("/v1/chat/completions", json=body) as response,
    ):
        answer = await response.json()
    assert answer["choices"][0]["message"]["content"] == "The capital of France is Paris."
    assert answer["choices"][0]["finish_reason"] == "stop"


async def test_the_command_line_says_paris(stack):
    """`headrace generate --chat` prints the same words."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace", "generate", "--chat", QUESTION),
        *("--temperature", "0", "--target", stack.server.address),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert (process.returncode, output.decode()) == (0, "The capital of France is Paris.")
