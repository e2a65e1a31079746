"""What holds on every route, with every method: a table, taken from the application itself."""

import gzip
import json

import pytest
from yarl import URL

from headrace_gateway.upstream import Upstream
from tests.gateway.routes_of import routes_of

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
INSIDE = ["Traceback", "Error(", "aiohttp", "grpc", "127.0.0.1", ".py", "headrace_", "object at"]


ROUTES = {
    path.replace("{name}", "a/b").replace("{path}", "nothing").replace("{id}", "resp_1"): methods
    for path, methods in routes_of(no_ui=False, with_head=True).items()
}
POSTED = sorted(path for path, methods in ROUTES.items() if "POST" in methods and path != "/ping")
STRANGE = [
    "/nope",
    "/v1",
    "/v1/",
    "//livez",
    "/livez/",
    "/v1/models/",
    "/%2e%2e/x",
    "/%ff",
    "/v2/a",
]


def test_there_are_routes():
    """The table holds the endpoints of the API, with the prefix and without."""
    paths = ["/chat/completions", "/completions", "/models", "/tokenize", "/detokenize"]
    for path in [*paths, "/messages", "/messages/count_tokens", "/responses"]:
        assert {f"/v1{path}", path} <= set(ROUTES)


async def check_error(response, status, code):
    """Check what all errors have in common."""
    text = await response.text()
    is_anthropic = "messages" in response.url.path
    if is_anthropic and status == 503:
        status = 529
    assert (response.status, response.content_type) == (status, "application/json"), text
    assert response.headers["x-request-id"] == "asked"
    assert response.headers.get("request-id") == ("asked" if is_anthropic else None)
    assert int(response.headers["openai-processing-ms"]) >= 0
    assert ("Retry-After" in response.headers) == (status in (429, 503, 529))
    assert ("Allow" in response.headers) == (status == 405)
    if response.method == "HEAD":
        assert text == ""
        return
    body = json.loads(text)
    if is_anthropic:
        assert list(body) == ["type", "error", "request_id"]
        assert (body["type"], body["request_id"]) == ("error", "asked")
        assert list(body["error"]) == ["type", "message"]
    else:
        assert list(body) == ["error"]
        assert list(body["error"]) == ["message", "type", "param", "code"]
        assert body["error"]["code"] == code
    assert body["error"]["message"].endswith(".")
    assert [word for word in INSIDE if word in text] == []


def ask(gateway, method, path, headers=JSON, **options):
    # A path is sent as it is written.
    url = URL(gateway.url(path), encoded=True)
    headers = {**headers, "X-Request-Id": "asked"}
    return gateway.session.request(method, url, headers=headers, **options)


@pytest.mark.parametrize("method", METHODS)
async def test_a_method_that_a_path_does_not_take(gateway, method):
    """405 names the methods that it takes; nothing else is done."""
    refusing = [path for path, methods in ROUTES.items() if method not in methods]
    assert refusing or method == "GET"
    for path in refusing:
        async with ask(gateway, method, path) as response:
            await check_error(response, 405, "method_not_allowed")
            assert set(response.headers["Allow"].split(",")) == ROUTES[path]


@pytest.mark.parametrize("method", METHODS)
async def test_a_path_that_is_not_there(gateway, method):
    """404 for whatever is asked of it."""
    for path in STRANGE:
        async with ask(gateway, method, path) as response:
            await check_error(response, 404, "not_found")


@pytest.mark.parametrize(
    ("headers", "data", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415, "unsupported_media_type"),
        (
            {"Content-Type": "application/x-www-form-urlencoded"},
            b"a=b",
            415,
            "unsupported_media_type",
        ),
        ({**JSON, "Content-Encoding": "rot13"}, b"{}", 415, "unsupported_content_encoding"),
        ({**JSON, "Content-Encoding": "gzip"}, gzip.compress(b"{}")[:-9], 400, None),
        (JSON, b"", 400, None),
        (JSON, b"{", 400, None),
        (JSON, b"[]", 400, None),
        (JSON, b"\xff", 400, None),
        (JSON, b"[" * 100_000, 400, None),
        (JSON, b'{"model": 5}', 400, None),
        (JSON, b"{}", 400, None),
        (JSON, b" " * 5000, 413, "request_too_large"),
        ({**JSON, "X-Request-Timeout": "soon"}, b'{"prompt": "a"}', 400, None),
        ({**JSON, "Expect": "more"}, b"{}", 417, None),
        ({**JSON, "Origin": "https://evil.example"}, b"{}", 403, "origin_not_allowed"),
    ],
)
async def test_a_body_that_is_not_taken(start_gateway, headers, data, status, code):
    """Every path that takes a body refuses it in the same way."""
    limit = {"max_body_bytes": 4096} if status == 413 else {}
    gateway = await start_gateway(**limit)
    for path in POSTED:
        async with ask(gateway, "POST", path, headers, data=data) as response:
            await check_error(response, status, code)


async def test_without_a_server_every_path_that_needs_it_says_so(start_gateway):
    """503 with a time to come back, and nothing of where the server should have been."""
    gateway = await start_gateway(upstream="127.0.0.1:1")
    body = {"prompt": "a"}
    chat, tokens = {"messages": [{"role": "user", "content": "a"}]}, {"tokens": [1]}
    asked = [
        *(("POST", path, chat) for path in POSTED if "chat" in path),
        *(("POST", path, chat | {"max_tokens": 1}) for path in POSTED if "messages" in path),
        *(("POST", path, {"input": "a"}) for path in POSTED if "responses" in path),
        *(("POST", path, body) for path in POSTED if path.endswith(("/completions", "/tokenize"))),
        *(("POST", path, tokens) for path in POSTED if "detokenize" in path),
        *(("GET", path, None) for path in ROUTES if "models" in path),
        *((method, path, None) for path in ("/health", "/readyz") for method in ("GET", "HEAD")),
        *((method, "/ping", None) for method in ("GET", "POST")),
    ]
    for method, path, json_ in asked:
        if "chat" in path and json_ is body:
            continue
        async with ask(gateway, method, path, json=json_) as response:
            await check_error(response, 503, "server_unavailable")


async def test_a_fault_of_the_gateway_shows_nothing_of_it(gateway, monkeypatch, caplog):
    """The text of an exception stays in the log, under the id that the caller gets."""

    def fail(*arguments, **options):
        raise RuntimeError("secret of the inside")

    for name in ("generate_all", "tokenize", "detokenize", "get_model", "list_models"):
        monkeypatch.setattr(Upstream, name, fail)
    monkeypatch.setattr(Upstream, "check_readiness", fail)
    body = {"prompt": "a", "tokens": [1]}
    chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}
    asked = [
        ("POST", path, chat if "chat" in path or "messages" in path else body)
        for path in POSTED
        if "responses" not in path
    ]
    asked += [("POST", path, {"input": "a"}) for path in POSTED if "responses" in path]
    asked += [("GET", path, None) for path in ("/v1/models", "/v1/models/a", "/health", "/ping")]
    for method, path, json_ in asked:
        async with ask(gateway, method, path, json=json_) as response:
            await check_error(response, 500, "internal_error")
            assert "secret" not in await response.text()
    assert sum("secret" in str(r.exc_info[1]) for r in caplog.records if r.exc_info) == len(asked)


@pytest.mark.parametrize(
    ("sent", "is_echoed"),
    [
        ("order-66", True),
        ("a b~!", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("\x80", False),
        ("", False),
    ],
)
async def test_the_id_of_a_request_is_that_of_its_answer(gateway, sent, is_echoed):
    """A sane id comes back, with errors as with answers; for any other there is a new one."""
    for path in ("/livez", "/nope", "/v1/models", "/v1/completions"):
        async with gateway.request("GET", path, headers={"X-Request-Id": sent}) as response:
            found = response.headers["x-request-id"]
        assert (found == sent) == is_echoed
        assert is_echoed or found.startswith("req_")
