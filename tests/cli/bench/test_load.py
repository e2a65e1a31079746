"""Streams share the prompts, and each waits for its answer."""

import asyncio

from headrace.cli.bench.endpoint import RequestFailedError
from headrace.cli.bench.load import run_load
from headrace.cli.bench.plan import Plan
from headrace.cli.bench.recording import Run

PLAN = Plan(3, 8, 0, 2, 4, None)


class Fake:
    """Answers in two messages, refuses the prompts that begin with 0, and counts who is there."""

    def __init__(self):
        self.num_live = self.most_live = 0

    async def answer(self, token_ids, num_tokens):
        self.num_live += 1
        self.most_live = max(self.most_live, self.num_live)
        try:
            await asyncio.sleep(0)  # lets the other streams begin
            if token_ids[0] == 0:
                raise RequestFailedError("No.")
            yield 1
            await asyncio.sleep(0)
            yield num_tokens - 1
        finally:
            self.num_live -= 1


async def test_every_prompt_is_sent_once_by_so_many_streams():
    """No more requests are under way than there are streams, and none is lost."""
    endpoint, run = Fake(), Run()
    await run_load(endpoint, iter([[n, 1] for n in range(1, 9)]), run, PLAN)
    assert endpoint.most_live == 3
    assert [len(r.arrivals_seconds) for r in run.recordings] == [2] * 8
    assert [r.num_output_tokens for r in run.recordings] == [4] * 8
    assert all(r.end_seconds is not None for r in run.recordings)


async def test_a_failure_does_not_end_the_run():
    """What fails is recorded with its reason, and the next prompt is sent."""
    run = Run()
    await run_load(Fake(), iter([[0, 1], [1, 1], [0, 1], [2, 1], [0, 1]]), run, PLAN)
    assert sorted(str(r.failure) for r in run.recordings) == ["No.", "No.", "No.", "None", "None"]
    assert run.num_over == 5


async def test_a_cancelled_run_keeps_what_it_has_seen():
    """The clock stops, and what was under way is neither complete nor failed."""
    begun = asyncio.Event()

    class Endless(Fake):
        async def answer(self, token_ids, num_tokens):
            yield 1
            begun.set()
            await asyncio.Event().wait()

    run = Run()
    load = asyncio.create_task(run_load(Endless(), iter([[1], [2]]), run, PLAN))
    await begun.wait()
    load.cancel()
    await asyncio.wait([load])
    assert run.seconds == run.seconds
    assert [(r.num_output_tokens, r.end_seconds, r.failure) for r in run.recordings] == [
        (1, None, None)
    ] * 2
