"""Answers of the real engine under load are those of the same requests alone."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass

import psutil
import pytest

from tests.server.running_server import collect, eventually

pytestmark = [
    pytest.mark.model,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

NUM_STREAMS = 64
NUM_NEIGHBOURS = 24
TOPICS = ("rivers", "the moon", "bread", "a lighthouse", "chess", "snow", "trains", "bees")


@dataclass(frozen=True)
class Wish:
    """A request that can be said to either front."""

    prompt: str
    max_tokens: int
    temperature: float
    seed: int

    async def over_grpc(self, stack) -> tuple[str, list[int]]:
        responses = await collect(
            stack.server.generate(
                text=self.prompt,
                sampling={"temperature": self.temperature, "top_p": 0.95, "seed": self.seed},
                stopping={"max_output_tokens": self.max_tokens},
                output={"token_ids": True},
            )
        )
        deltas = [delta for response in responses for delta in response.deltas]
        token_ids = [token_id for delta in deltas for token_id in delta.token_ids]
        assert responses[-1].usage.output_token_count == len(token_ids)
        return "".join(delta.text for delta in deltas), token_ids

    async def over_http(self, http) -> str:
        body = {
            "prompt": self.prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": 0.95,
            "seed": self.seed,
            "stream": True,
        }
        text = []
        async with http.post("/v1/completions", json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    chunk = json.loads(line.removeprefix(b"data: "))
                    text += [choice["text"] for choice in chunk["choices"]]
                    is_done = False
                elif line.startswith(b"data: "):
                    is_done = line.strip() == b"data: [DONE]"
        assert is_done
        return "".join(text)


def make_wishes() -> list[Wish]:
    chance = random.Random(1919)
    return [
        Wish(
            prompt=f"Story {index} about {chance.choice(TOPICS)}: "
            + "once " * chance.randrange(30),
            max_tokens=chance.randrange(4, 18),
            temperature=chance.choice((0.0, 0.9)),
            seed=chance.getrandbits(62),
        )
        for index in range(NUM_STREAMS)
    ]


async def be_a_neighbour_who_leaves(stack, index: int) -> None:
    """Ask for a long answer and leave somewhere on the way."""
    chance = random.Random(index)
    call = stack.server.generate(text="Neighbour " * chance.randrange(1, 200))
    for _ in range(chance.randrange(4)):
        await call.read()
    call.cancel()


async def test_answers_under_load_equal_the_answers_alone(stack):
    """64 streams on both fronts, neighbours leaving, give what each request gives alone."""
    wishes = make_wishes()
    alone = [await wish.over_grpc(stack) for wish in wishes]
    async with stack.open_http() as http:  # so that the gateway's own connection stands
        assert await wishes[1].over_http(http) == alone[1][0]
    await stack.all_returned()
    num_tasks, num_descriptors = len(asyncio.all_tasks()), psutil.Process().num_fds()

    async with stack.open_http() as http, asyncio.TaskGroup() as tasks:
        grpc_half = [tasks.create_task(wish.over_grpc(stack)) for wish in wishes[::2]]
        http_half = [tasks.create_task(wish.over_http(http)) for wish in wishes[1::2]]
        for index in range(NUM_NEIGHBOURS):
            tasks.create_task(be_a_neighbour_who_leaves(stack, index))

    assert [task.result() for task in grpc_half] == alone[::2]
    assert [task.result() for task in http_half] == [text for text, _ in alone[1::2]]
    await stack.all_returned()
    await eventually(lambda: len(asyncio.all_tasks()) <= num_tasks)
    await eventually(lambda: psutil.Process().num_fds() <= num_descriptors)
