import asyncio
import threading

import pytest

from headrace_server.errors import OverloadedError
from headrace_server.text import workers as workers_module
from headrace_server.text.workers import LONG_CHARACTERS, TextWorkers

NEVER_SECONDS = 30.0


@pytest.fixture
def workers():
    workers = TextWorkers(num_threads=1)
    yield workers
    workers.close()


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def waiting_for(gate):
    def wait():
        assert gate.wait(NEVER_SECONDS)
        return threading.current_thread().name

    return wait


async def test_work_is_done_in_a_thread_and_its_errors_come_back(workers):
    """The result, or the exception, is that of the function."""
    assert await workers.run(1, lambda: threading.current_thread().name) != "MainThread"
    with pytest.raises(ZeroDivisionError):
        await workers.run(1, lambda: 1 // 0)


async def test_short_texts_do_not_wait_for_long_ones(workers, gate):
    """While a long text takes its time, short ones are worked on."""
    long = asyncio.ensure_future(workers.run(LONG_CHARACTERS + 1, waiting_for(gate)))
    assert await asyncio.wait_for(workers.run(LONG_CHARACTERS, lambda: 7), NEVER_SECONDS) == 7
    assert not long.done()
    gate.set()
    await long


async def test_too_much_waiting_text_is_refused(workers, gate, monkeypatch):
    """Over the bound a text is refused at once, and taken again when there is room."""
    monkeypatch.setattr(workers_module, "MAX_WAITING_CHARACTERS", 100)
    first = asyncio.ensure_future(workers.run(60, waiting_for(gate)))
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError) as caught:
        await workers.run(50, lambda: None)
    assert caught.value.retry_after_seconds > 0
    gate.set()
    await first
    assert await workers.run(1000, lambda: 7) == 7


async def test_cancelled_work_is_not_begun(workers, gate):
    """What is cancelled while it waits for a thread costs nothing and makes room."""
    begun = []
    first = asyncio.ensure_future(workers.run(1, waiting_for(gate)))
    second = asyncio.ensure_future(workers.run(1, lambda: begun.append(True)))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    await first
    await workers.run(1, lambda: None)
    assert begun == []
