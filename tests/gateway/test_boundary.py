"""The boundary around the handlers, with handlers that fail in ways that ours should not."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from headrace_gateway.api_keys import ApiKeys, to_api_key
from headrace_gateway.boundary import Boundary
from headrace_gateway.config import GatewayConfig
from headrace_gateway.connection import Connection
from headrace_gateway.cors import CorsPolicy
from headrace_gateway.event_stream import EventStream


@asynccontextmanager
async def serving(handler, keys=None, *, is_open=False):
    """Serve one handler behind the boundary and yield its address."""
    app = web.Application()
    boundary = Boundary(CorsPolicy(()), keys)
    boundary.install(app)
    route = app.router.add_get("/", handler)
    if is_open:
        boundary.open(route)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(runner.server, GatewayConfig()), "127.0.0.1", 0
    )
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        server.close()
        await runner.cleanup()


async def fail(request):
    raise ValueError("secret")


async def fail_with_a_timeout(request):
    raise TimeoutError("secret")


async def fail_in_a_stream(request):
    async with EventStream(
        request, write_timeout_seconds=10, keep_alive_interval_seconds=10
    ) as events:
        await events.start()
        await events.send(b"data: 1\n\n")
        raise ValueError("secret")
    return events.response


async def succeed(request):
    return web.Response(text="secret")


@pytest.mark.parametrize(("is_open", "status"), [(False, 401), (True, 200)])
async def test_a_route_is_closed_that_nobody_has_opened(is_open, status):
    """Whoever adds one and thinks of nothing adds no hole."""
    keys = ApiKeys([to_api_key("good")])
    async with (
        serving(succeed, keys, is_open=is_open) as url,
        aiohttp.ClientSession() as session,
    ):
        async with session.get(url) as response:
            assert response.status == status
            assert ("secret" in await response.text()) == is_open
        async with session.get(url, headers={"X-Api-Key": "good"}) as response:
            assert response.status == 200


@pytest.mark.parametrize("handler", [fail, fail_with_a_timeout, fail_in_a_stream])
async def test_a_fault_shows_an_id_and_the_log_has_the_cause(handler, caplog):
    """The caller gets an id, also within a stream; the text of the exception is in the log."""
    async with (
        serving(handler) as url,
        aiohttp.ClientSession() as session,
        session.get(url) as response,
    ):
        body = await response.text()
    assert "secret" not in body
    assert response.status == (200 if handler is fail_in_a_stream else 500)
    error = json.loads(body.removeprefix("data: 1\n\n").removeprefix("data: "))["error"]
    assert (error["type"], error["code"]) == ("server_error", "internal_error")
    [record] = [record for record in caplog.records if record.exc_info]
    assert record.fields["error_id"] in error["message"]
    assert str(record.exc_info[1]) == "secret"
