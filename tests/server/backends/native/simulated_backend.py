"""A native backend over the simulated model, and what tests do with it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

from headrace_server.backends.interface import (
    BackendRequest,
    BackendState,
    SamplingParams,
    Started,
    Tokens,
)
from headrace_server.backends.native import AdmissionLimits, NativeBackend, SupervisionLimits
from headrace_server.engine.settings import EngineSettings, SimulatedSettings
from headrace_server.engine.simulated_vocabulary import END_OF_TURN

ADMISSION = AdmissionLimits()
SUPERVISION = SupervisionLimits()


def make_backend(
    *,
    step_seconds=0.0,
    load_seconds=0.0,
    faults=True,
    admission=ADMISSION,
    supervision=SUPERVISION,
    backend_type=NativeBackend,
    **settings,
):
    simulated = SimulatedSettings(
        step_seconds=step_seconds, load_seconds=load_seconds, faults=faults
    )
    return backend_type(
        EngineSettings(runner="simulated", simulated=simulated, **settings), admission, supervision
    )


@asynccontextmanager
async def running_backend(**options):
    """A backend that is ready; on leaving all books must balance."""
    async with make_backend(**options) as backend:
        await wait_for_state(backend, BackendState.READY)
        yield backend
        await wait_until_idle(backend)


def make_request(prompt=b"prompt", *, temperature=0.0, seed=0, **options):
    values = {
        "max_output_tokens": 20,
        "min_output_tokens": 0,
        "stop_token_ids": frozenset([END_OF_TURN]),
    }
    sampling = SamplingParams(temperature, None, 1.0, 0.0, seed)
    return BackendRequest("a request", list(prompt), sampling, **(values | options))


async def answer(backend, request):
    """All tokens of a request."""
    async with backend.submit(request) as stream:
        return await remaining_tokens(stream)


async def remaining_tokens(stream):
    [token_ids] = await remaining_candidates(stream, 1)
    return token_ids


async def remaining_candidates(stream, num_candidates):
    """All tokens of each candidate."""
    token_ids = [[] for _ in range(num_candidates)]
    async for events in stream:
        for event in events:
            if isinstance(event, Tokens):
                token_ids[event.candidate_index] += event.token_ids
    return token_ids


async def wait_for_start(stream):
    events = await anext(stream)
    assert isinstance(events[0], Started)


async def wait_for_state(backend, state, timeout_seconds=20):
    async with asyncio.timeout(timeout_seconds):
        while backend.status.state is not state:
            await backend.wait_for_status_change(backend.status)


async def wait_until(condition, timeout_seconds=10):
    """Wait for something that has no event of its own."""
    async with asyncio.timeout(timeout_seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.002)


async def wait_until_idle(backend):
    """Wait until every request is closed and every block is free."""

    def is_idle():
        load = backend.load
        return (
            load.num_opened == load.num_closed
            and load.num_running == load.num_waiting == 0
            and load.num_free_blocks == load.num_total_blocks
        )

    await wait_until(is_idle)
