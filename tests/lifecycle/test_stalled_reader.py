"""A client that stops reading holds little, and not for long."""

import asyncio

import grpc
import psutil

from tests.lifecycle.phases import SMALL_WINDOW, blocked_in_write
from tests.server.running_server import (
    ENDLESS,
    collect,
    eventually,
    failure,
    first,
    running_server,
    text_of,
)

STALL = ("--stall-timeout", 0.5, "--simulated-step-seconds", 0.001)


async def test_a_stalled_client_is_dropped_at_the_limit():
    """Its work stops at the stall limit, and it learns why when it reads on."""
    async with running_server(*STALL, channel_options=SMALL_WINDOW) as under:
        call = under.generate(stopping=ENDLESS)
        await first(call)
        await blocked_in_write(under)
        await under.all_returned()
        error = await failure(call)
        assert (error.code, error.reason) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "CLIENT_STALLED",
        )


async def test_a_slow_client_loses_nothing():
    """Who reads slowly, but within the limit, gets the same answer in fewer pieces."""
    async with running_server(*STALL, channel_options=SMALL_WINDOW) as under:
        wishes = {
            "stopping": {"max_output_tokens": 600, "ignore_end_of_text": True},
            "sampling": {"seed": 3},
        }
        quick = await collect(under.generate(**wishes))
        slow = []
        async for response in under.generate(**wishes):
            slow.append(response)
            await asyncio.sleep(0.01)
        assert text_of(slow) == text_of(quick)
        assert len(slow) < 600


async def test_stalled_clients_hold_a_bounded_amount_of_memory():
    """Fifty clients that stop reading cost less than 16 MiB together, disturb nobody, and end."""
    flags = ("--stall-timeout", 2, "--simulated-step-seconds", 0.001)
    async with running_server(*flags, channel_options=SMALL_WINDOW) as under:
        stopping = {"max_output_tokens": 50, "ignore_end_of_text": True}
        wishes = {"stopping": stopping, "sampling": {"seed": 3}}
        alone = await collect(under.generate(**wishes))
        process = psutil.Process()
        before = process.memory_info().rss
        stalled = [under.generate(output={"token_ids": True}) for _ in range(50)]
        for call in stalled:
            await first(call)
        await blocked_in_write(under)
        assert text_of(await collect(under.generate(**wishes))) == text_of(alone)
        await under.all_returned()
        grown_bytes = process.memory_info().rss - before
        print(f"grown by {grown_bytes / 2**20:.1f} MiB")
        assert grown_bytes < 16 * 1024 * 1024
        for call in stalled:
            assert (await failure(call)).reason == "CLIENT_STALLED"


async def test_a_stalled_client_that_never_reads_again_is_gone_with_its_connection():
    """What the transport still holds for it goes when it goes."""
    async with running_server(*STALL, channel_options=SMALL_WINDOW) as under:
        tasks = len(asyncio.all_tasks())
        call = under.generate(stopping=ENDLESS)
        await first(call)
        await under.all_returned()
        call.cancel()
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks, asyncio.all_tasks)
