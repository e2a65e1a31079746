"""Pages in browsers reach the replicas by gRPC-Web, and those that may not do not."""

import asyncio

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from tests.deploy import grpc_web
from tests.deploy.envoy_process import BOUND_SECONDS
from tests.deploy.service import ENDLESS, http_session, running_service

KINDS = ("grpc-web", "grpc-web-text")
GENERATE = "/headrace.v1.InferenceService/Generate"
STEP = ("--simulated-step-seconds", 0.01)
PAGE = "http://localhost:5173"


async def call(client, kind, message, **headers):
    async with client.post(
        GENERATE, data=grpc_web.body(kind, message), headers=grpc_web.headers(kind, **headers)
    ) as response:
        assert response.status == 200
        return grpc_web.parse(kind, await response.read(), response.headers)


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_comes_whole(kind):
    """All messages, then the trailers with the status, in binary and in base64."""
    stopping = {"max_output_tokens": 20, "ignore_end_of_text": True}
    async with (
        running_service(*STEP, num_replicas=1) as service,
        http_session(service.url) as client,
    ):
        answer = await call(client, kind, pb.GenerateRequest(text="Once", stopping=stopping))
        line = await service.envoy.wait_for_log(lambda line: line.get("kind") == "upstream")
    responses = [pb.GenerateResponse.FromString(message) for message in answer.messages]
    assert answer.code == grpc.StatusCode.OK.value[0]
    assert responses[0].HasField("prompt")
    assert responses[-1].usage.output_token_count == 20
    assert line["grpc"] == "OK"


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_come_while_the_stream_runs(kind):
    """The first pieces of an answer without an end are there at once."""
    message = pb.GenerateRequest(text="Once", stopping=ENDLESS)
    async with (
        running_service(*STEP, num_replicas=1) as service,
        http_session(service.url) as client,
        client.post(
            GENERATE, data=grpc_web.body(kind, message), headers=grpc_web.headers(kind)
        ) as response,
    ):
        async with asyncio.timeout(BOUND_SECONDS):
            for _ in range(3):
                assert await response.content.readany()


@pytest.mark.parametrize("kind", KINDS)
async def test_errors_come_with_their_details(kind):
    """A refusal is a status with its reason, not an HTTP error."""
    async with running_service(num_replicas=1) as service, http_session(service.url) as client:
        answer = await call(
            client, kind, pb.GenerateRequest(sampling={"temperature": -1}, text="a")
        )
    assert answer.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "temperature" in answer.message
    assert answer.reason == "INVALID_FIELD"


async def test_the_replica_ends_a_call_at_its_deadline():
    """The deadline goes on to the replica, which ends the answer with a status of its own."""
    message = pb.GenerateRequest(text="Once", stopping=ENDLESS)
    async with (
        running_service(*STEP, num_replicas=1) as service,
        http_session(service.url) as client,
    ):
        answer = await call(client, "grpc-web", message, **{"grpc-timeout": "300m"})
    assert answer.messages
    assert answer.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


async def preflight(client, path, origin):
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-grpc-web",
    }
    async with client.options(path, headers=headers) as response:
        return response.status, response.headers


async def test_a_page_of_this_machine_may_call():
    """The preflight names what a gRPC-Web library sends, the answer what it reads."""
    async with running_service(num_replicas=1) as service, http_session(service.url) as client:
        status, headers = await preflight(client, GENERATE, PAGE)
        assert status == 200
        assert headers["access-control-allow-origin"] == PAGE
        assert headers["access-control-allow-methods"] == "POST"
        allowed = headers["access-control-allow-headers"].split(",")
        assert {"authorization", "content-type", "grpc-timeout", "x-grpc-web"} <= set(allowed)
        message = pb.GenerateRequest(text="Once", stopping={"max_output_tokens": 1})
        async with client.post(
            GENERATE,
            data=grpc_web.body("grpc-web", message),
            headers=grpc_web.headers("grpc-web", Origin=PAGE),
        ) as response:
            assert response.headers["access-control-allow-origin"] == PAGE
            assert "grpc-status-details-bin" in response.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    "origin", ["https://example.com", "http://localhost.example.com", "null", "http://localhost:1a"]
)
async def test_other_pages_may_not(origin):
    """A page from elsewhere gets no leave, however it looks."""
    async with running_service(num_replicas=1) as service, http_session(service.url) as client:
        _, headers = await preflight(client, GENERATE, origin)
    assert "access-control-allow-origin" not in headers


async def test_the_gateway_decides_for_its_own_paths():
    """Envoy leaves preflights of the HTTP API to --cors-origins."""
    flags = ("--cors-origins", "https://example.com")
    async with (
        running_service(num_replicas=1, num_gateways=1, gateway_flags=flags) as service,
        http_session(service.url) as client,
    ):
        for origin, is_allowed in (("https://example.com", True), (PAGE, False)):
            _, headers = await preflight(client, "/v1/chat/completions", origin)
            assert ("access-control-allow-origin" in headers) is is_allowed
