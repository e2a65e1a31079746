"""Engines that die, hang or cannot start, and fronts that die."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from headrace_server.backends.interface import BackendState
from headrace_server.backends.native import EngineLoadError, SupervisionLimits
from headrace_server.engine.simulated_runner import FAULT_EXIT, FAULT_HANG
from headrace_server.errors import EngineUnavailableError
from tests.server.backends.native.simulated_backend import (
    answer,
    make_backend,
    make_request,
    running_backend,
    wait_for_state,
    wait_until,
)
from tests.server.engine.stepped_engine import solo_answer

BOUND_SECONDS = 20.0
# By the end of its process, that is, and long before it could be missed for its silence.
AT_ONCE_SECONDS = 10.0
IMPATIENT = SupervisionLimits(idle_timeout_seconds=1.0, step_timeout_seconds=1.0)


async def outcome(backend, request):
    """The answer, or the error with the time at which it came."""
    try:
        return await answer(backend, request)
    except EngineUnavailableError as error:
        return error, asyncio.get_running_loop().time()


async def test_kill_9_fails_every_stream_at_once_and_service_comes_back():
    """20 streams, running and queued, end at once; then the engine is new and serves."""
    loop = asyncio.get_running_loop()
    async with running_backend(step_seconds=0.005, max_num_sequences=10) as backend:
        request = make_request(max_output_tokens=5000)
        async with asyncio.TaskGroup() as tasks:
            streams = [tasks.create_task(outcome(backend, request)) for _ in range(20)]
            await wait_until(lambda: backend.load.num_running == backend.load.num_waiting == 10)
            pid = backend.engine_pid
            kill_time = loop.time()
            os.kill(pid, signal.SIGKILL)
        errors = [task.result() for task in streams]
        unready = backend.status
        with pytest.raises(EngineUnavailableError):
            await answer(backend, request)
        await wait_for_state(backend, BackendState.READY)

        assert [error.retry_after_seconds > 0 for error, _ in errors] == [True] * 20
        assert max(end_time for _, end_time in errors) - kill_time < AT_ONCE_SECONDS
        assert unready.state is not BackendState.READY
        assert backend.load.num_opened == backend.load.num_closed == 20
        assert backend.engine_pid != pid
        assert await answer(backend, make_request()) == solo_answer()


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN + 1, f"signal {signal.SIGRTMIN + 1}")],
)
async def test_the_status_says_how_the_engine_ended(number, name):
    """A person can tell a kill from a crash, also by a signal that has no name."""
    async with running_backend() as backend:
        os.kill(backend.engine_pid, number)
        details = [backend.status.detail]
        while "started again" not in details[-1]:
            details.append((await backend.wait_for_status_change(backend.status)).detail)

        assert details[-1] == f"the engine was ended by {name}; it is started again"
        await wait_for_state(backend, BackendState.READY)


async def test_an_idle_engine_that_is_stopped_is_replaced():
    """SIGSTOP shows as silence, even when nobody asks for anything."""
    async with running_backend(supervision=IMPATIENT) as backend:
        pid = backend.engine_pid
        os.kill(pid, signal.SIGSTOP)
        await wait_for_state(backend, BackendState.UNAVAILABLE)
        await wait_for_state(backend, BackendState.READY)

        assert backend.engine_pid != pid
        assert not psutil.pid_exists(pid)


async def test_a_step_that_never_ends_is_noticed():
    """A hung step fails its streams and the engine is replaced."""
    async with running_backend(supervision=IMPATIENT) as backend:
        pid = backend.engine_pid
        async with asyncio.timeout(BOUND_SECONDS):
            with pytest.raises(EngineUnavailableError):
                await answer(backend, make_request([*b"hang", FAULT_HANG]))
        await wait_for_state(backend, BackendState.READY)

        assert not psutil.pid_exists(pid)
        assert await answer(backend, make_request()) == solo_answer()


async def test_a_long_step_is_not_taken_for_a_hang():
    """With work to do the engine may be silent for as long as a step takes."""
    limits = SupervisionLimits(idle_timeout_seconds=1.5, step_timeout_seconds=60.0)
    async with running_backend(step_seconds=2.5, supervision=limits) as backend:
        pid = backend.engine_pid
        assert await answer(backend, make_request(max_output_tokens=1)) == solo_answer()[:1]
        assert backend.engine_pid == pid


async def test_a_pause_of_the_front_is_not_held_against_the_engine():
    """A front whose own loop was blocked for longer than the limit kills nobody."""
    async with running_backend(supervision=IMPATIENT) as backend:
        pid = backend.engine_pid
        time.sleep(1.5)  # noqa: ASYNC251 - the pause is what is tested
        assert await answer(backend, make_request()) == solo_answer()
        assert backend.engine_pid == pid


async def test_an_engine_that_ends_itself_in_a_step_is_replaced():
    """A request that kills the process is answered, and so is the next one."""
    async with running_backend() as backend:
        for _ in range(2):
            with pytest.raises(EngineUnavailableError):
                await answer(backend, make_request([FAULT_EXIT]))
            await wait_for_state(backend, BackendState.READY)
        assert await answer(backend, make_request()) == solo_answer()


async def test_crashes_without_a_token_between_them_come_ever_slower():
    """The delay doubles until an engine has made tokens."""
    async with running_backend() as backend:
        delays = []
        for _ in range(3):
            with pytest.raises(EngineUnavailableError):
                await answer(backend, make_request([FAULT_EXIT]))
            await wait_for_state(backend, BackendState.READY)
            delays.append(backend._supervisor._num_failures)
        await answer(backend, make_request())

        assert delays == [1, 2, 3]
        assert backend._supervisor._num_failures == 0


async def test_an_engine_that_dies_while_it_loads_for_the_first_time_is_fatal():
    """A server that has never served does not try for ever."""

    async def kill_the_first_engine():
        async with make_backend() as backend:
            await wait_until(lambda: backend.engine_pid is not None)
            os.kill(backend.engine_pid, signal.SIGKILL)
            await asyncio.Event().wait()

    with pytest.raises(
        EngineLoadError, match="not be loaded because the engine was ended by SIGKILL"
    ):
        await kill_the_first_engine()


async def test_messages_of_another_epoch_are_dropped_and_counted():
    """What a dead engine has said is not taken for the words of its successor."""
    async with running_backend() as backend:
        supervisor = backend._supervisor
        num_steps = backend.load.num_steps
        supervisor._epoch += 1
        await wait_until(lambda: supervisor.num_stale_messages > 0)
        assert backend.load.num_steps == num_steps
        supervisor._epoch -= 1
        assert await answer(backend, make_request()) == solo_answer()


FRONT = """
import asyncio
from tests.server.backends.native.simulated_backend import *

async def main():
    async with running_backend(step_seconds=60) as backend:
        async with backend.submit(make_request()) as stream:
            await wait_for_start(stream)
            print(backend.engine_pid, flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_engine_never_outlives_its_front(number):
    """A front that is killed takes its engine with it, even from a long step."""
    with subprocess.Popen([sys.executable, "-c", FRONT], stdout=subprocess.PIPE) as front:
        engine = psutil.Process(int(front.stdout.readline()))
        front.send_signal(number)
        front.wait()
        _gone, alive = psutil.wait_procs([engine], timeout=BOUND_SECONDS)

    assert alive == [] or alive[0].status() == psutil.STATUS_ZOMBIE
