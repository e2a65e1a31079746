"""Keys are the replicas' business: Envoy passes them on and writes them nowhere."""

import asyncio

import grpc

from tests.deploy.service import http_session, running_service
from tests.server.running_server import collect, failure

KEY = "correct-horse-battery"
STOPPING = {"max_output_tokens": 2}
CHAT = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 2}


async def test_keys_pass_and_stay_secret():
    """With its key a call is served, without one it is not; the health checks need none."""
    async with running_service("--api-key", KEY) as service:
        with_key = [("authorization", f"Bearer {KEY}")]
        calls = [service.generate(stopping=STOPPING, metadata=with_key) for _ in range(4)]
        await asyncio.gather(*(collect(call) for call in calls))
        for metadata in ([], [("authorization", "Bearer wrong")]):
            error = await failure(service.generate(stopping=STOPPING, metadata=metadata))
            assert (error.code, error.reason) == (
                grpc.StatusCode.UNAUTHENTICATED,
                "UNAUTHENTICATED",
            )
        await service.envoy.wait_for_log(lambda line: line.get("grpc") == "UNAUTHENTICATED")
        assert KEY not in str(service.envoy.log)


async def test_keys_of_json_pass():
    """They are a header like any other for JSON over HTTP."""
    async with (
        running_service("--api-key", KEY, num_replicas=1) as service,
        http_session(service.url) as client,
    ):
        path = "/headrace.v1.InferenceService/Tokenize"
        for headers, status in (({"Authorization": f"Bearer {KEY}"}, 200), ({}, 401)):
            async with client.post(path, json={"text": "Hi"}, headers=headers) as response:
                assert response.status == status


async def test_keys_pass_gateways():
    """They go from Envoy to the gateway, and from there through Envoy to the replica."""
    async with (
        running_service("--api-key", KEY, num_replicas=1, num_gateways=1) as service,
        http_session(service.url) as client,
    ):
        for headers, status in (({"Authorization": f"Bearer {KEY}"}, 200), ({}, 401)):
            async with client.post("/v1/chat/completions", json=CHAT, headers=headers) as response:
                assert response.status == status, await response.text()
        assert KEY not in str(service.envoy.log)
