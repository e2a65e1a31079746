"""Large bodies are read beside the event loop, one at a time."""

import asyncio
import threading

import pytest

from headrace_gateway.large_bodies import LARGE_BYTES, LargeBodies
from headrace_gateway.routes import completions
from tests.client.scripted_server import BOUND_SECONDS


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


async def test_small_bodies_are_read_at_once():
    """A thread would cost more than it saves."""
    assert await LargeBodies().run(LARGE_BYTES, threading.current_thread) is (
        threading.current_thread()
    )


async def test_a_large_body_leaves_the_loop_free_and_the_next_one_waits(gate):
    """Small ones are read meanwhile; the second large one begins after the first."""
    bodies, begun = LargeBodies(), []

    def read(name):
        begun.append(name)
        assert gate.wait(BOUND_SECONDS)
        return name

    first = asyncio.ensure_future(bodies.run(LARGE_BYTES + 1, lambda: read("first")))
    second = asyncio.ensure_future(bodies.run(LARGE_BYTES + 1, lambda: read("second")))
    await asyncio.sleep(0)
    assert await bodies.run(1, lambda: "small") == "small"
    assert "second" not in begun
    gate.set()
    assert await asyncio.gather(first, second) == ["first", "second"]
    assert begun == ["first", "second"]


async def test_errors_come_back_from_the_thread():
    """The refusal of a large body is that of a small one."""
    with pytest.raises(ZeroDivisionError):
        await LargeBodies().run(LARGE_BYTES + 1, lambda: 1 // 0)


async def test_a_request_with_a_large_body_is_read_in_the_thread(gateway, server, monkeypatch):
    """The route reads it there, also the fields, and hands it on unchanged."""
    threads, parse = [], completions.parse_completion_request

    def parse_and_tell(body):
        threads.append(threading.current_thread().name)
        return parse(body)

    monkeypatch.setattr(completions, "parse_completion_request", parse_and_tell)
    text = "x" * (LARGE_BYTES + 1)
    async with gateway.post("/v1/completions", {"prompt": text}) as response:
        assert response.status == 200
    assert [name.startswith("large-body") for name in threads] == [True]
    assert server.calls[0].request.text == text
