"""Keys: who is let in, what others are told, and what the server learns of a caller."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc_health.v1 import health_pb2_grpc
from yarl import URL

from headrace.v1 import inference_service_pb2_grpc, model_service_pb2_grpc
from headrace_gateway.api_keys import to_api_key
from tests.client.scripted_server import BOUND_SECONDS, Refusal, ScriptedServer
from tests.gateway.routes_of import routes_of

KEY = to_api_key("secret")
BEARER = {"Authorization": "Bearer secret"}
CHAT = "/v1/chat/completions"
OPEN = {
    "/",
    "/docs",
    "/docs/",
    "/docs/{path}",
    "/health",
    "/livez",
    "/openapi.json",
    "/ping",
    "/readyz",
    "/ui/{path}",
    "/version",
}
MESSAGE = (
    "The API key is missing or wrong; send yours as the header Authorization: Bearer KEY or "
    "X-Api-Key: KEY."
)
# gRPC names itself.
OF_GRPC = ("user-agent", "x-request-id")


@pytest.fixture
async def gateway(start_gateway):
    return await start_gateway(api_keys=(KEY,))


def asked():
    """Return each route with a path that it takes."""
    for path, methods in routes_of(no_ui=False, with_head=True).items():
        written = path.replace("{name}", "tiny").replace("{path}", "start.js")
        for method in sorted(methods):
            yield method, path, written.replace("{id}", "resp_1")


async def test_every_route_asks_for_a_key_that_is_not_open(gateway):
    """By default it does: those that do not are these, and no others."""
    let_in = {True: set(), False: set()}
    for method, path, written in asked():
        async with gateway.request(method, written, allow_redirects=False) as response:
            let_in[response.status != 401].add(path)
        async with gateway.request(
            method, written, headers=BEARER, allow_redirects=False
        ) as response:
            assert response.status != 401, written
    assert let_in[True] == OPEN
    assert let_in[False] == set(routes_of(no_ui=False)) - OPEN


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nope"),
        ("POST", "/v1/embeddings"),
        ("DELETE", "/health"),
        ("POST", "/"),
        ("GET", "//health"),
        ("GET", "/health/"),
        ("GET", "/health/../metrics"),
        ("GET", "/ui/../metrics"),
        ("GET", "/ui/%2e%2e/metrics"),
        ("GET", "/%6detrics"),
        ("GET", "/metrics?/health"),
        ("OPTIONS", CHAT),
    ],
)
async def test_what_is_no_open_route_asks_for_a_key(gateway, method, path):
    """A path is what the router makes of it; without a key nobody learns what there is."""
    url = URL(f"http://{gateway.running.address}{path}", encoded=True)
    async with gateway.session.request(method, url) as response:
        assert response.status in (401, 404), path
        if response.status == 404:
            assert path.startswith("/ui/")


async def test_the_pages_that_are_left_out_are_not_open(start_gateway):
    """With --no-ui they are paths like any other."""
    gateway = await start_gateway(api_keys=(KEY,), no_ui=True)
    for path in ("/", "/docs", "/ui/start.js"):
        async with gateway.request("GET", path) as response:
            assert response.status == 401


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"X-Api-Key": "wrong"}, {"X-Api-Key": "é"}]
)
async def test_the_refusal_is_openais(gateway, server, headers):
    """It says what to do, and is the same for a key that is missing and one that is wrong."""
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    async with gateway.post(CHAT, body, headers=headers) as response:
        assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert await response.json() == {
            "error": {
                "message": MESSAGE,
                "type": "invalid_request_error",
                "param": None,
                "code": "invalid_api_key",
            }
        }
    assert server.calls == []


async def test_the_refusal_of_messages_is_anthropics(gateway):
    """Its clients know an error of authentication."""
    async with gateway.post("/v1/messages", {}, headers={"X-Request-Id": "asked"}) as response:
        assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert await response.json() == {
            "type": "error",
            "error": {"type": "authentication_error", "message": MESSAGE},
            "request_id": "asked",
        }


async def test_two_keys_that_differ_are_refused(gateway):
    """A good one beside another one may be the wrong one; twice the same is one."""
    for other, status in (("other", 401), ("secret", 200)):
        headers = {**BEARER, "X-Api-Key": other}
        async with gateway.request("GET", "/v1/models", headers=headers) as response:
            assert response.status == status


async def test_a_caller_without_a_key_is_refused_before_its_body(gateway):
    """Nobody waits for the body, or asks for it."""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    ends = (
        b"Content-Length: 1000000\r\n\r\n",
        b"Content-Length: 100000000\r\n\r\n",
        b"Content-Length: 1000000\r\nExpect: 100-continue\r\n\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n",
    )
    for end in ends:
        reply = await gateway.exchange_bytes(head + end)
        assert reply.startswith(b"HTTP/1.1 401 ")
        assert reply.count(b"HTTP/1.1 ") == 1


async def test_a_caller_with_a_key_is_asked_for_its_body(gateway):
    """Who waits for it hears that the body may come."""
    body = b'{"prompt": "a"}'
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            writer.write(
                b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"X-Api-Key: secret\r\nConnection: close\r\nExpect: 100-continue\r\n"
                b"Content-Length: %d\r\n\r\n" % len(body)
            )
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    finally:
        writer.close()


async def test_a_page_asks_without_a_key_and_sends_with_one(gateway):
    """The question of a browser has no key; the refusal of what follows can be read by the page."""
    origin = {"Origin": "http://localhost:3000"}
    preflight = {
        **origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    async with gateway.request("OPTIONS", CHAT, headers=preflight) as response:
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    for headers, status in ((origin, 401), ({**origin, **BEARER}, 200)):
        async with gateway.post(CHAT, body, headers=headers) as response:
            assert response.status == status
            assert response.headers["Access-Control-Allow-Origin"] == origin["Origin"]


async def test_a_foreign_page_is_told_so_before_its_key(gateway):
    """A good key does not help it, and it learns nothing of one."""
    for headers in ({}, BEARER):
        headers = {"Origin": "https://evil.example", **headers}
        async with gateway.post(CHAT, {}, headers=headers) as response:
            assert response.status == 403


async def test_the_log_has_the_name_of_the_key_and_not_the_key(gateway, access_log):
    """Who is not let in has no name."""
    for headers, caller in ((BEARER, KEY.name), ({"X-Api-Key": "wrong"}, None)):
        async with gateway.request("GET", "/v1/models?key=secret", headers=headers):
            line = await access_log.next_line()
        assert line.get("caller") == caller
        assert [word for word in ("secret", "wrong") if word in str(line)] == []


async def test_a_file_of_keys_is_read_again(start_gateway, tmp_path):
    """A key that is added is good, and one that is removed is not."""
    file = tmp_path / "keys"
    file.write_text("alice old\n")
    gateway = await start_gateway(api_key_file=file)

    async def status_of(key):
        headers = {"X-Api-Key": key}
        async with gateway.request("GET", "/v1/models", headers=headers) as response:
            return response.status

    assert [await status_of("old"), await status_of("new")] == [200, 401]
    file.write_text("alice new\n")
    async with asyncio.timeout(BOUND_SECONDS):
        while await status_of("new") == 401:
            pass
    assert await status_of("old") == 401


class Recorder(grpc.ServerInterceptor):
    """Keeps the metadata of every call."""

    def __init__(self):
        self.seen = {}

    def intercept_service(self, continuation, details):
        metadata = dict(details.invocation_metadata)
        self.seen[details.method.rpartition("/")[2]] = {
            key: value for key, value in metadata.items() if key not in OF_GRPC
        }
        return continuation(details)


@pytest.fixture
def recorder():
    """A server that keeps what comes with its calls; `target` is its address."""
    recorder, servicer = Recorder(), ScriptedServer()
    recorder.servicer = servicer
    server = grpc.server(ThreadPoolExecutor(8), interceptors=[recorder])
    inference_service_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(servicer, server)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    recorder.target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield recorder
    server.stop(grace=None).wait(BOUND_SECONDS)


async def ask_everything(gateway, headers):
    """Make each call to the server that the gateway knows."""
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3}
    for path, body in (
        (CHAT, chat),
        ("/v1/messages", chat),
        ("/v1/responses", {"input": "Hi"}),
        ("/v1/tokenize", {"prompt": "Hi"}),
        ("/v1/detokenize", {"tokens": [1]}),
    ):
        async with gateway.post(path, body, headers=headers) as response:
            assert response.status == 200, path
    for path, status in (("/v1/models", 200), ("/v1/models/tiny", 200), ("/readyz", 503)):
        async with gateway.request("GET", path, headers=headers) as response:
            assert response.status == status


@pytest.mark.parametrize(
    ("keys", "headers", "metadata"),
    [
        ((KEY,), BEARER, {"authorization": "Bearer secret", "x-headrace-caller": KEY.name}),
        (
            (KEY,),
            {"X-Api-Key": "secret"},
            {"authorization": "Bearer secret", "x-headrace-caller": KEY.name},
        ),
        ((), BEARER, {"authorization": "Bearer secret", "x-headrace-caller": "127.0.0.1"}),
        ((), {}, {"x-headrace-caller": "127.0.0.1"}),
        ((), {"X-Api-Key": "a b", "X-Headrace-Caller": "root"}, {"x-headrace-caller": "127.0.0.1"}),
        (
            (),
            {"X-Headrace-Affinity": "chat 7"},
            {"x-headrace-caller": "127.0.0.1", "x-headrace-affinity": "chat 7"},
        ),
    ],
)
async def test_the_server_learns_who_calls(start_gateway, recorder, keys, headers, metadata):
    """Each call to it has the caller's key, the name that it has here, and its affinity."""
    recorder.servicer.is_serving = False
    gateway = await start_gateway(api_keys=keys, upstream=recorder.target)
    await ask_everything(gateway, headers)
    methods = ("Generate", "Tokenize", "Detokenize", "ListModels", "GetModel", "Check")
    # The last lookup of the model is for readiness, which is of no conversation.
    of_probes = {key: word for key, word in metadata.items() if key != "x-headrace-affinity"}
    probes = dict.fromkeys(("Check", "GetModel"), of_probes)
    assert recorder.seen == dict.fromkeys(methods, metadata) | probes


@pytest.mark.parametrize("odd", ["é", "", "x" * 129])
async def test_an_affinity_that_no_metadata_can_hold_is_refused(start_gateway, odd):
    """As it would be in the middle of a call otherwise."""
    gateway = await start_gateway()
    headers = {"X-Headrace-Affinity": odd}
    async with gateway.request("GET", "/v1/models", headers=headers) as response:
        error = (await response.json())["error"]
    assert (response.status, error["message"]) == (
        400,
        "X-Headrace-Affinity must be 1 to 128 printable ASCII characters.",
    )


@pytest.mark.parametrize("path", ["/health", "/readyz", "/ping"])
async def test_readiness_does_not_tell_of_the_servers_keys(start_gateway, server, path):
    """Who asks for it has no key as a rule; it is told that the server is not ready, in general."""
    server.is_serving = False
    server.model_refusal = Refusal(grpc.StatusCode.UNAUTHENTICATED, "A key!", "UNAUTHENTICATED")
    gateway = await start_gateway()
    async with gateway.request("GET", path) as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"]) == (503, "server_unavailable")
    assert error["message"] == (
        "The inference server takes no requests now: it is about to start or to stop."
    )


async def test_a_server_that_asks_for_a_key_is_answered_in_the_gateways_words(
    start_gateway, server
):
    """Over HTTP a key is sent in a header, whoever asks for it."""
    words = "There is no valid API key; send one in the metadata, as authorization: Bearer KEY."
    refusal = Refusal(grpc.StatusCode.UNAUTHENTICATED, words, "UNAUTHENTICATED")
    server.model_refusal = refusal
    server.script = lambda request: iter([refusal])
    gateway = await start_gateway()
    body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True}
    for method, path, body_ in (("POST", CHAT, body), ("GET", "/v1/models", None)):
        async with gateway.request(method, path, json=body_) as response:
            assert (response.status, response.headers["WWW-Authenticate"]) == (401, "Bearer")
            error = json.loads(await response.text())["error"]
            assert (error["message"], error["code"]) == (MESSAGE, "invalid_api_key")
