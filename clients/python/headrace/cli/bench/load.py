"""Sends requests over a number of streams, each of which waits for its answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from headrace.cli.bench.endpoint import RequestFailedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.cli.bench.endpoint import Endpoint
    from headrace.cli.bench.plan import Plan
    from headrace.cli.bench.recording import Run


async def run_load(
    endpoint: Endpoint,
    prompts: Iterator[Sequence[int]],
    run: Run,
    plan: Plan,
) -> None:
    """Send all prompts; a request that fails is recorded, and the next one is sent."""

    async def send_each() -> None:
        for prompt in prompts:  # which all streams share
            await _ask(endpoint, prompt, plan.num_output_tokens, run)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(plan.num_streams):
                tasks.create_task(send_each())
    finally:
        run.stop()


async def _ask(endpoint: Endpoint, prompt: Sequence[int], num_tokens: int, run: Run) -> None:
    recording = run.send(len(prompt))
    try:
        async with aclosing(endpoint.answer(prompt, num_tokens)) as answer:
            async for count in answer:
                recording.arrivals_seconds.append(run.now())
                recording.num_output_tokens += count
    except RequestFailedError as error:
        recording.failure = str(error)
    else:
        recording.end_seconds = run.now()
