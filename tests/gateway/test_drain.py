"""A gateway that must stop lets its answers finish."""

import asyncio

import pytest

from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, end, piece
from tests.gateway.conftest import events_of

PATH = "/v1/completions"


@pytest.fixture
def holds(server):
    """Two answers, to the prompts "a" and "b", that are held in their middle."""
    holds = {"a": Hold(), "b": Hold()}

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield holds[request.text]
        yield end("lo")

    server.script = script
    return list(holds.values())


async def reached(holds):
    for hold in holds:
        assert await asyncio.to_thread(hold.reached.wait, BOUND_SECONDS)


async def test_running_answers_finish_while_new_ones_are_refused(gateway, holds):
    """During a drain readiness is 503 and so are new requests; what runs comes to its end."""
    async with asyncio.TaskGroup() as tasks:
        whole = tasks.create_task(read(gateway, {"prompt": "a"}))
        stream = tasks.create_task(read(gateway, {"prompt": "b", "stream": True}))
        await reached(holds)
        drain = tasks.create_task(gateway.running.in_flight.drain(BOUND_SECONDS))
        await asyncio.sleep(0)
        for method, path in (("GET", "/health"), ("GET", "/readyz"), ("POST", PATH)):
            body = {"prompt": "b"} if method == "POST" else None
            async with gateway.request(method, path, json=body) as response:
                assert response.status == 503
                assert response.headers["Retry-After"] == "1"
                assert (await response.json())["error"]["code"] == "draining"
        async with gateway.request("GET", "/livez") as response:
            assert response.status == 200
        assert not drain.done()
        for hold in holds:
            hold.over.set()
    assert '"text":"Hello"' in whole.result()
    assert events_of(stream.result())[-1] == "[DONE]"


async def test_what_takes_too_long_is_ended_with_words(gateway, server, holds):
    """After the time of the drain answers are cut, and the callers are told why."""
    async with asyncio.TaskGroup() as tasks:
        whole = tasks.create_task(gateway.post_for_error(PATH, {"prompt": "a"}))
        await reached(holds[:1])
        async with gateway.post(PATH, {"prompt": "b", "stream": True}) as response:
            first = await response.content.readuntil(b"\n\n")
            await gateway.running.in_flight.drain(0.05)
            rest = await response.content.read()
    status, error = whole.result()
    assert (status, error["code"]) == (503, "draining")
    assert error["message"] == (
        "The gateway stopped before the answer was complete; send the request again."
    )
    *chunks, last = events_of((first + rest).decode())
    assert chunks[0]["choices"][0]["text"] == "Hel"
    assert last["error"] == error
    for call in server.calls:
        assert await asyncio.to_thread(call.wait_until_cancelled)


async def test_an_idle_gateway_stops_at_once(gateway):
    """Without answers under way there is nothing to wait for."""
    async with asyncio.timeout(BOUND_SECONDS):
        await gateway.running.in_flight.drain(100 * BOUND_SECONDS)


async def read(gateway, body):
    async with gateway.post(PATH, body) as response:
        assert response.status == 200
        return await response.text()
