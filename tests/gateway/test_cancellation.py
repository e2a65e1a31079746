"""Callers who leave, stop reading or run out of time stop the work in the server."""

import asyncio
import json
import socket

import pytest

from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, end, piece

PATHS = ["/v1/chat/completions", "/v1/completions", "/v1/responses"]


def body_for(path, stream):
    if path == "/v1/responses":
        return {"input": "Hi", "stream": stream}
    prompt = {"prompt": "Hi"} if path == "/v1/completions" else {}
    return {"messages": [{"role": "user", "content": "Hi"}], **prompt, "stream": stream}


async def reached(hold):
    assert await asyncio.to_thread(hold.reached.wait, BOUND_SECONDS)


async def was_cancelled(call):
    return await asyncio.to_thread(call.wait_until_cancelled)


async def send(gateway, path, body, **headers):
    """Send a request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(data)}", *(f"{k}: {v}" for k, v in headers.items())]
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + data)
    return reader, writer


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("is_admitted", [False, True])
async def test_a_caller_who_leaves_cancels_the_call(
    gateway, server, access_log, path, stream, abort, is_admitted
):
    """Before admission and after, blocking and streaming, closed and reset: the call ends."""
    hold = Hold()

    def script(request):
        if is_admitted:
            yield Admit()
            yield piece("Hel")
        yield hold

    server.script = script
    _, writer = await send(gateway, path, body_for(path, stream))
    await reached(hold)
    if abort:
        writer.transport.abort()
    else:
        writer.close()
    assert await was_cancelled(server.calls[0])
    assert (await access_log.next_line())["status"] == 499


async def test_a_caller_who_leaves_within_the_body(gateway, server, access_log):
    """A request that never became whole is logged, and the server does not hear of it."""
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b'Content-Length: 100\r\n\r\n{"prompt'
    )
    await writer.drain()
    writer.close()
    assert (await access_log.next_line())["status"] == 499
    assert server.calls == []


async def test_a_caller_who_leaves_cancels_all_prompts(gateway, server):
    """No prompt of several goes on for a caller who has left."""
    holds = {"a": Hold(), "b": Hold(), "c": Hold()}

    def script(request):
        yield Admit()
        yield holds[request.text]

    server.script = script
    _, writer = await send(gateway, "/v1/completions", {"prompt": list(holds), "stream": True})
    for hold in holds.values():
        await reached(hold)
    writer.close()
    assert [await was_cancelled(call) for call in server.calls] == [True] * 3


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_time_limit_of_the_caller_goes_along(gateway, server, path, stream):
    """The server gets what remains of the caller's time; when it is over, that is 504."""
    hold = Hold()

    def script(request):
        yield hold

    server.script = script
    headers = {"X-Request-Timeout": "1"}
    status, error = await gateway.post_for_error(path, body_for(path, stream), headers=headers)
    assert (status, error["type"], error["code"]) == (504, "timeout", "deadline_exceeded")
    [call] = server.calls
    assert 0 < call.time_remaining < 2
    assert await was_cancelled(call)


async def test_a_time_limit_that_passes_within_a_stream_is_its_last_event(gateway, server):
    """An answer that is cut by time says so; it does not end as if it were too long."""
    hold = Hold()

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield hold

    server.script = script
    body = body_for(PATHS[0], stream=True)
    headers = {"X-Request-Timeout": "1"}
    async with gateway.post(PATHS[0], body, headers=headers) as response:
        text = await response.text()
    last = json.loads(text.strip().rpartition("\n\n")[2].removeprefix("data: "))
    assert last["error"]["code"] == "deadline_exceeded"


async def test_the_limit_of_the_gateway_holds_for_all(start_gateway, server):
    """--request-timeout is the longest time that a caller can get."""
    gateway = await start_gateway(request_timeout_seconds=500.0)
    for asked, limit in ((None, 500.0), ("300", 300.0), ("5000", 500.0)):
        headers = {} if asked is None else {"X-Request-Timeout": asked}
        async with gateway.post(PATHS[1], {"prompt": "a"}, headers=headers) as response:
            assert response.status == 200
        assert limit - BOUND_SECONDS < server.calls[-1].time_remaining < limit + 1


@pytest.mark.parametrize("odd", ["0", "-1", "nan", "inf", "1e999", "soon", "", "86401", "1_0", "٣"])
async def test_an_odd_time_limit_is_refused(gateway, server, odd):
    """A time that is none is not taken for no limit."""
    headers = {"X-Request-Timeout": odd}
    status, error = await gateway.post_for_error(PATHS[1], {"prompt": "a"}, headers=headers)
    assert (status, error["message"]) == (
        400,
        "X-Request-Timeout must be a number of seconds above 0 and up to 86400.",
    )
    assert server.calls == []


async def stalled_reader(gateway, body):
    """Send a request with the smallest buffers and read nothing."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", gateway.port))
    data = json.dumps(body).encode()
    head = (
        f"POST {PATHS[1]} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    await asyncio.get_running_loop().sock_sendall(connection, head.encode() + data)
    return connection


async def test_a_reader_who_stalls_is_cut_off(start_gateway, server, access_log):
    """A stream that nobody reads is given up after its time, and its call is cancelled."""
    gateway = await start_gateway(write_timeout_seconds=0.1)

    def script(request):
        yield Admit()
        while True:
            yield piece("x" * 100_000)

    server.script = script
    with await stalled_reader(gateway, {"prompt": "a", "stream": True}):
        assert (await access_log.next_line())["status"] == 499
        assert await was_cancelled(server.calls[0])


async def test_a_reader_who_stalls_on_a_whole_answer_is_cut_off(start_gateway, server, access_log):
    """A whole answer that nobody reads does not stay in memory."""
    gateway = await start_gateway(write_timeout_seconds=0.1)

    def script(request):
        yield Admit()
        for _ in range(80):
            yield piece("x" * 100_000)
        yield end()

    server.script = script
    with await stalled_reader(gateway, {"prompt": "a"}):
        assert (await access_log.next_line())["status"] == 499


async def test_a_silent_stream_is_kept_alive(start_gateway, server):
    """While nothing is sent, comments are, which clients ignore."""
    gateway = await start_gateway(keep_alive_interval_seconds=0.02)
    hold = Hold()

    def script(request):
        yield Admit()
        yield hold
        yield end("Hi")

    server.script = script
    async with gateway.post(PATHS[1], {"prompt": "a", "stream": True}) as response:
        assert await response.content.readuntil(b"\n\n") == b": keep-alive\n\n"
        assert await response.content.readuntil(b"\n\n") == b": keep-alive\n\n"
        hold.over.set()
        rest = await response.content.read()
    assert rest.endswith(b"data: [DONE]\n\n")


async def test_the_headers_of_a_stream_come_with_admission(gateway, server):
    """A client sees status 200 as soon as the request is admitted, before the first token."""
    hold = Hold()

    def script(request):
        yield Admit()
        yield hold
        yield end("Hi")

    server.script = script
    async with gateway.post(PATHS[1], {"prompt": "a", "stream": True}) as response:
        assert response.status == 200
        assert not server.calls[0].ended.is_set()
        hold.over.set()
        await response.read()
