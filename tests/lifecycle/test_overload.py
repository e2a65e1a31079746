"""Admission decides at once, and who is refused does not disturb who is served."""

import asyncio
import statistics
import time

import grpc

from tests.server.running_server import collect, failure, first, running_server, text_of

LIMITS = (
    *("--max-num-seqs", 2),
    *("--max-queued-requests", 3),
    *("--simulated-step-seconds", 0.005),
)


async def test_a_full_queue_refuses_at_once_and_the_others_go_on():
    """Over the limit each call is RESOURCE_EXHAUSTED with a retry time within milliseconds."""
    async with running_server(*LIMITS) as under:
        greedy = {"temperature": 0}
        stopping = {"max_output_tokens": 100, "ignore_end_of_text": True}
        alone = text_of(await collect(under.generate(stopping=stopping, sampling=greedy)))
        # They go on until they are left, so that the queue stays full.
        admitted = [under.generate(sampling=greedy) for _ in range(5)]
        for call in admitted:
            await call.initial_metadata()
        seconds = []
        for _ in range(100):
            begin = time.monotonic()
            error = await failure(under.generate())
            seconds.append(time.monotonic() - begin)
            assert (error.code, error.reason) == (
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                "OVERLOADED",
            )
            assert error.retry_seconds > 0
        print(f"refused after p99 {statistics.quantiles(seconds, n=100)[98] * 1000:.1f} ms")
        assert statistics.median(seconds) < 0.2
        # All at once, for any two of them may be the ones that run.
        assert await asyncio.gather(*(begins_with(call, alone) for call in admitted)) == [True] * 5
        await under.all_returned()
        assert await collect(under.generate(stopping=stopping))


async def begins_with(call, text):
    """Read from a call as much text as this, leave it, and tell whether it is this."""
    found = ""
    while len(found) < len(text):
        found += text_of([await first(call)])
    call.cancel()
    return found.startswith(text)


async def test_the_queue_is_bounded_in_tokens_too():
    """A long prompt that does not fit the rest of the queue is refused, a short one is taken."""
    async with running_server(*LIMITS, "--max-queued-tokens", 5000) as under:
        for call in [under.generate(), under.generate()]:
            await first(call)
        queued = under.generate(token_ids={"ids": [65] * 4000})
        await queued.initial_metadata()
        error = await failure(under.generate(token_ids={"ids": [65] * 2000}))
        assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED")
        assert await under.generate(token_ids={"ids": [65] * 500}).initial_metadata()


async def test_a_client_that_retries_by_itself_is_served_in_the_end():
    """A stock gRPC retry policy obeys the pushback and gets through."""
    policy = (
        '{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":5,"initialBackoff":"0.05s",'
        '"maxBackoff":"1s","backoffMultiplier":2,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}'
    )
    options = (("grpc.service_config", policy),)
    async with running_server(*LIMITS, channel_options=options) as under:
        stopping = {"max_output_tokens": 20, "ignore_end_of_text": True}
        answers = await asyncio.gather(
            *(collect(under.generate(stopping=stopping)) for _ in range(8))
        )
        assert [answer[-1].usage.output_token_count for answer in answers] == [20] * 8
