"""Health over HTTP, in front of a scripted server."""

import asyncio
from importlib.metadata import version

import grpc
import pytest

from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, Refusal, running_server

COMPLETIONS = "/v1/completions"


@pytest.mark.parametrize("path", ["/health", "/readyz"])
async def test_ready_when_the_server_is(gateway, server, path):
    """Readiness is that of the inference service."""
    async with gateway.request("GET", path) as response:
        assert (response.status, await response.json()) == (200, {"status": "ok"})
    assert server.unary_request.service == "headrace.v1.InferenceService"


@pytest.mark.parametrize("path", ["/health", "/readyz"])
async def test_a_server_that_loads_says_how_far_it_is(gateway, server, path):
    """The words of the server about its state are those of the gateway."""
    server.is_serving = False
    words = "The model is not ready yet (loading weights, 40 %); try again."
    server.model_refusal = Refusal(
        grpc.StatusCode.UNAVAILABLE, words, "ENGINE_UNAVAILABLE", retry_after_seconds=1.0
    )
    async with gateway.request("GET", path) as response:
        error = (await response.json())["error"]
    assert (response.status, response.headers["Retry-After"]) == (503, "1")
    assert (error["message"], error["code"]) == (words, "engine_unavailable")


async def test_a_server_that_denies_without_words_is_not_ready(gateway, server):
    """A server that knows its model but does not serve is not ready either."""
    server.is_serving = False
    async with gateway.request("GET", "/health") as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"]) == (503, "server_unavailable")


async def test_without_a_server_the_gateway_lives_but_is_not_ready(start_gateway):
    """Liveness is about this process alone; readiness fails fast when nobody answers."""
    gateway = await start_gateway(upstream="127.0.0.1:1")
    async with asyncio.timeout(BOUND_SECONDS):
        async with gateway.request("GET", "/health") as response:
            assert response.status == 503
            assert (await response.json())["error"]["message"] == (
                "The inference server cannot be reached."
            )
        async with gateway.request("GET", "/livez") as response:
            assert response.status == 200
        status, error = await gateway.post_for_error(COMPLETIONS, {"prompt": "a"})
        assert (status, error["code"]) == (503, "server_unavailable")


async def test_ready_means_that_the_next_request_is_taken(start_gateway):
    """A server that came back is not told as ready before the connection for requests has it."""
    with running_server() as earlier:
        port = int(earlier.target.rpartition(":")[2])
    gateway = await start_gateway(upstream=f"127.0.0.1:{port}")
    status, error = await gateway.post_for_error(COMPLETIONS, {"prompt": "a"})
    assert (status, error["code"]) == (503, "server_unavailable")
    with running_server(port):
        async with asyncio.timeout(BOUND_SECONDS):
            while not await is_ready(gateway):
                pass
        async with gateway.post(COMPLETIONS, {"prompt": "a"}) as response:
            assert response.status == 200


async def is_ready(gateway):
    async with gateway.request("GET", "/readyz") as response:
        return response.status == 200


async def test_the_version(gateway):
    """The version is that of the package."""
    async with gateway.request("GET", "/version") as response:
        assert await response.json() == {"version": version("headrace")}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_ping_is_answered_when_the_server_is_ready(gateway, server, method):
    """The platforms that ping want 200 or an error."""
    async with gateway.request(method, "/ping") as response:
        assert response.status == 200
    server.is_serving = False
    async with gateway.request(method, "/ping") as response:
        assert response.status == 503


async def test_the_load_is_the_number_of_generations(gateway, server):
    """It grows with each answer that is being made, and falls when its caller leaves."""
    hold = Hold()

    def script(request):
        yield Admit()
        yield hold

    server.script = script
    assert await load_of(gateway) == 0
    async with gateway.post(COMPLETIONS, {"prompt": "a", "stream": True}) as response:
        assert response.status == 200
        assert await load_of(gateway) == 1
    async with asyncio.timeout(BOUND_SECONDS):
        while await load_of(gateway):
            pass


async def load_of(gateway):
    async with gateway.request("GET", "/load") as response:
        return (await response.json())["server_load"]
