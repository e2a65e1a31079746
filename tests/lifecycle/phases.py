"""Brings a call into a phase of its life, for what ends it there."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from headrace_server.rpc.calls import Stage
from tests.server.running_server import ENDLESS, eventually, first

# Two run together and a prompt of 6,000 tokens takes a hundred steps.
FLAGS = (
    *("--max-num-seqs", 2),
    *("--max-num-batched-tokens", 64),
    *("--simulated-step-seconds", 0.005),
)
LONG_PROMPT = {"token_ids": {"ids": [65] * 6000}}
# With it a few responses fill all the room that a client gives to a stream.
SMALL_WINDOW = (("grpc.http2.lookahead_bytes", 256), ("grpc.http2.bdp_probe", 0))

PHASES = ("at once", "queued", "prefill", "first token", "decode", "blocked in write")


@asynccontextmanager
async def call_in(phase, under, **options):
    """A call that has reached the phase; what it needed beside it is cancelled on leaving."""
    if phase != "queued":
        yield await _reach(phase, under, **options)
        return
    neighbours = [under.generate() for _ in range(2)]
    for neighbour in neighbours:
        await first(neighbour)
    call = under.generate(**options)
    await call.initial_metadata()
    await eventually(lambda: under.backend.load.num_waiting == 1, lambda: under.backend.load)
    yield call
    for neighbour in neighbours:
        neighbour.cancel()


async def _reach(phase, under, **options):
    match phase:
        case "at once":
            call = under.generate(**options)
            await asyncio.sleep(0)
        case "prefill":
            call = under.generate(**LONG_PROMPT, **options)
            await call.initial_metadata()
            begin = under.backend.load.num_steps
            await eventually(lambda: under.backend.load.num_steps >= begin + 2)
        case "first token":
            call = under.generate(**options)
            await call.initial_metadata()
        case "decode":
            call = under.generate(**options)
            await first(call)
            await first(call)
        case "blocked in write":
            call = under.generate(stopping=ENDLESS, **options)
            await first(call)
            await blocked_in_write(under)
    return call


async def blocked_in_write(under):
    """Wait until a call of the server has been in one write for many steps."""
    while True:
        calls = [c for c in under.server.calls._live if c.stage is Stage.WRITING]
        seen = {call: call.output_token_count for call in calls}
        steps = under.backend.load.num_steps
        await eventually(lambda: under.backend.load.num_steps > steps + 10)  # noqa: B023
        for call, count in seen.items():
            if call.stage is Stage.WRITING and call.output_token_count == count:
                return
