"""Everything that is not an answer has OpenAI's shape, also what aiohttp says by itself."""

import asyncio
import gzip
import io
import json
import socket
import zlib

import pytest

from headrace_gateway import upstream

PATH = "/v1/completions"
JSON = {"Content-Type": "application/json"}


async def error_of(response):
    """Return the error of a response after a check of what all errors have in common."""
    assert response.content_type == "application/json"
    assert response.headers["x-request-id"]
    assert response.headers["openai-processing-ms"]
    body = await response.json()
    assert list(body) == ["error"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"].endswith(".")
    return body["error"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nope", 404, "not_found"),
        ("POST", "/nope", 404, "not_found"),
        ("GET", "/v1", 404, "not_found"),
        ("GET", PATH, 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/models", 405, "method_not_allowed"),
    ],
)
async def test_unknown_paths_and_methods(gateway, method, path, status, code):
    """404 and 405 are errors like any other; 405 says what is allowed."""
    async with gateway.request(method, path) as response:
        error = await error_of(response)
    assert (response.status, error["code"]) == (status, code)
    assert ("Allow" in response.headers) == (status == 405)


async def test_an_unknown_path_is_told_where_all_that_exist_are(gateway):
    """The refusal is short, and leads to the document that lists them."""
    async with gateway.request("POST", "/v1/embeddings") as response:
        message = (await error_of(response))["message"]
    assert message == "There is nothing at this path; GET /openapi.json lists what there is."
    async with gateway.request("GET", "/openapi.json") as response:
        assert "/v1/chat/completions" in (await response.json())["paths"]


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "",
        "application/x-www-form-urlencoded",
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/json; charset=latin-1",
        "application/jsonp",
    ],
)
async def test_only_json_may_be_posted(gateway, content_type):
    """Types that any web page may send without asking are refused."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    async with gateway.request(
        "POST", PATH, data=b'{"prompt":"a"}', headers=headers, skip_auto_headers=["Content-Type"]
    ) as response:
        error = await error_of(response)
    assert (response.status, error["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=UTF-8", "application/json;"]
)
async def test_the_ways_of_saying_json(gateway, content_type):
    """Case, charset and an empty parameter do not matter."""
    headers = {"Content-Type": content_type}
    async with gateway.request("POST", PATH, data=b'{"prompt":"a"}', headers=headers) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(b'{"prompt":"packed"}')),
        ("GZip", gzip.compress(b'{"prompt":') + gzip.compress(b'"packed"}')),
        ("deflate", zlib.compress(b'{"prompt":"packed"}')),
        ("deflate", zlib.compress(b'{"prompt":"packed"}')[2:-4]),
    ],
)
async def test_a_packed_body_is_unpacked(gateway, server, encoding, data):
    """Gzip may have several members, deflate a header or none."""
    headers = {**JSON, "Content-Encoding": encoding}
    async with gateway.request("POST", PATH, data=data, headers=headers) as response:
        assert response.status == 200
    assert server.calls[0].request.text == "packed"


@pytest.mark.parametrize(
    ("encoding", "data", "status"),
    [
        ("gzip", b"not packed", 400),
        ("gzip", gzip.compress(b'{"prompt":"a"}')[:-12], 400),
        ("gzip", gzip.compress(b'{"prompt":"a"}')[:-1], 400),
        ("gzip", gzip.compress(b'{"prompt":"a"}')[:-8], 400),
        ("gzip", gzip.compress(b'{"prompt":"a"}') + b"x", 400),
        ("deflate", b"\x00\x01", 400),
        ("deflate", zlib.compress(b'{"prompt":"a"}')[:-1], 400),
        ("foo", b'{"prompt":"a"}', 415),
        ("gzip, gzip", b'{"prompt":"a"}', 415),
    ],
)
async def test_a_body_that_is_not_packed_as_it_says(gateway, encoding, data, status):
    """Broken packing is 400, unknown packing 415; neither is taken for plain text."""
    headers = {**JSON, "Content-Encoding": encoding}
    async with gateway.request("POST", PATH, data=data, headers=headers) as response:
        await error_of(response)
    assert response.status == status


@pytest.mark.parametrize("encoding", ["br", "zstd"])
async def test_a_packing_that_needs_another_library(gateway, encoding):
    """What aiohttp might unpack elsewhere is refused, and told so, whatever is installed."""
    headers = {**JSON, "Content-Encoding": encoding}
    async with gateway.request("POST", PATH, data=b"{}", headers=headers) as response:
        error = await error_of(response)
    assert (response.status, error["code"]) == (415, "unsupported_content_encoding")
    assert "Content-Encoding" in error["message"]


async def test_a_body_that_is_not_packed_as_it_says_is_no_fault_in_the_log(gateway, caplog):
    """The client is told; the log holds no traceback for what is not ours."""
    reply = await gateway.exchange_bytes(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 10\r\nConnection: close\r\n\r\nnot packed"
    )
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize("packed", [False, True])
async def test_a_body_over_the_limit(start_gateway, packed):
    """The limit is on the unpacked body, so that a bomb does not go off."""
    gateway = await start_gateway(max_body_bytes=2048)
    data, headers = b" " * 1_000_000, dict(JSON)
    if packed:
        data, headers["Content-Encoding"] = gzip.compress(data), "gzip"
    async with gateway.request("POST", PATH, data=data, headers=headers) as response:
        error = await error_of(response)
    assert (response.status, error["code"]) == (413, "request_too_large")
    assert "2048" in error["message"]


async def test_a_body_over_the_limit_of_the_server(gateway):
    """What only the server finds too large is 413 too."""
    data = io.BytesIO(b'{"prompt": "' + b"x" * 5_000_000 + b'"}')
    async with gateway.request("POST", PATH, data=data, headers=JSON) as response:
        error = await error_of(response)
    assert (response.status, error["code"]) == (413, "request_too_large")


async def test_a_body_that_does_not_come(start_gateway, access_log):
    """A body that stays incomplete is given up after its time."""
    gateway = await start_gateway(body_timeout_seconds=0.05)
    reply = await gateway.exchange_bytes(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["error"]["code"] == "request_timeout"
    assert (await access_log.next_line())["status"] == 408


@pytest.mark.parametrize("path", [PATH, "/nope"])
async def test_an_unknown_expectation(gateway, path):
    """417 has the shape of errors on every path."""
    async with gateway.request("POST", path, headers={"Expect": "miracles"}) as response:
        await error_of(response)
    assert response.status == 417


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: five\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\n" + b"X-Many: x\r\n" * 200 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_bytes_that_are_no_http(gateway, data, access_log):
    """Malformed requests get an error in JSON that repeats nothing of them, and one log line."""
    reply = await gateway.exchange_bytes(data)
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 400 ")
    assert b"x-request-id: req_" in head
    assert json.loads(body)["error"]["message"] == (
        "The bytes received are not a valid HTTP/1.1 request."
    )
    assert (await access_log.next_line())["status"] == 400
    assert not access_log.has_more()


async def test_pipelined_requests_are_answered_in_order(gateway):
    """Two requests on one connection get two responses in their order."""
    reply = await gateway.exchange_bytes(
        b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    assert reply.count(b"HTTP/1.1 200 OK") == 2
    assert reply.index(b'"status"') < reply.index(b'"version"')


async def test_a_fault_of_the_server_shows_nothing_of_it(gateway, server):
    """The text of an exception in the server does not reach the caller."""
    server.models = []  # on which the scripted server fails with an exception of its own
    async with gateway.request("GET", "/v1/models/x") as response:
        error = await error_of(response)
    assert (response.status, error["message"]) == (500, "The server failed on this request.")


async def test_too_many_connections(start_gateway):
    """A connection over the limit is told so and closed; the others go on."""
    gateway = await start_gateway(max_connections=1)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"}")
        reply = await gateway.exchange_bytes(b"")
        head, _, body = reply.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b"\r\nRetry-After: 1\r\n" in head
        assert json.loads(body)["error"]["code"] == "too_many_connections"
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"}")
    finally:
        writer.close()


async def test_a_preflight_of_a_local_page(gateway):
    """A page of this machine may use the API, and sees so before and after."""
    headers = {
        "Origin": "http://localhost:3000",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    async with gateway.request("OPTIONS", PATH, headers=headers) as response:
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
        assert response.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
    headers = {"Origin": "http://localhost:3000"}
    for body, status in (({"prompt": "a"}, 200), ({}, 400)):
        async with gateway.post(PATH, body, headers=headers) as response:
            assert response.status == status
            assert response.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"


async def test_a_foreign_page_may_not_use_the_api(gateway, server):
    """A page from elsewhere gets no permission, and its posts are not executed."""
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    async with gateway.request("OPTIONS", PATH, headers=headers) as response:
        assert "Access-Control-Allow-Origin" not in response.headers
        assert "Access-Control-Allow-Methods" not in response.headers
    headers = {"Origin": "https://evil.example"}
    async with gateway.post(PATH, {"prompt": "a"}, headers=headers) as response:
        error = await error_of(response)
    assert (response.status, error["code"]) == (403, "origin_not_allowed")
    assert server.calls == []


async def test_a_server_that_says_nothing(start_gateway, monkeypatch):
    """A frozen server is 503 and worth another try; 504 is for a limit that the caller set."""
    monkeypatch.setattr(upstream, "CONTROL_TIMEOUT_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        gateway = await start_gateway(upstream=f"127.0.0.1:{frozen.getsockname()[1]}")
        async with gateway.request("GET", "/v1/models") as response:
            error = await error_of(response)
            assert (response.status, error["code"]) == (503, "server_unavailable")
            assert "Retry-After" in response.headers
        # Another one, which has not given the connection up yet.
        gateway = await start_gateway(upstream=f"127.0.0.1:{frozen.getsockname()[1]}")
        limit = {"X-Request-Timeout": "0.05"}
        async with gateway.request("GET", "/v1/models", headers=limit) as response:
            error = await error_of(response)
            assert (response.status, error["code"]) == (504, "deadline_exceeded")
