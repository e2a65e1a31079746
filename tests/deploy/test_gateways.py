"""HTTP gateways behind Envoy: their streams, their health, and their own way to the replicas."""

import asyncio
import json
import signal

import pytest

from tests.deploy.envoy_process import BOUND_SECONDS
from tests.deploy.service import http_session, running_service
from tests.server.running_server import first

STEP = ("--simulated-step-seconds", 0.01)
CHAT = {"messages": [{"role": "user", "content": "Once"}], "stream": True}
NUM_CANCELS = 1_000


async def next_event(response):
    """Read to the next event of a stream that has a text."""
    async with asyncio.timeout(BOUND_SECONDS):
        while line := await response.content.readline():
            if line.startswith(b"data: {"):
                delta = json.loads(line[6:])["choices"][0]["delta"]
                if delta.get("content"):
                    return delta["content"]
    raise AssertionError("the stream is over")


async def test_events_come_while_the_stream_runs():
    """Server-sent events of an answer without an end pass Envoy one by one."""
    async with (
        running_service(*STEP, num_gateways=1) as service,
        http_session(service.url) as client,
        client.post("/v1/chat/completions", json=CHAT | {"ignore_eos": True}) as response,
    ):
        assert response.status == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        for _ in range(3):
            assert await next_event(response)


async def test_comments_keep_a_silent_stream_alive():
    """An answer that waits for its turn shows signs of life through Envoy."""
    one = ("--max-num-seqs", 1)
    flags = ("--keep-alive-interval", 0.2)
    async with (
        running_service(
            *STEP, *one, num_replicas=1, num_gateways=1, gateway_flags=flags
        ) as service,
        http_session(service.url) as client,
    ):
        running = service.generate()
        await first(running)
        async with (
            asyncio.timeout(BOUND_SECONDS),
            client.post("/v1/chat/completions", json=CHAT) as response,
        ):
            comments = 0
            while comments < 3:
                comments += (await response.content.readline()).startswith(b":")
        running.cancel()


async def test_a_thousand_callers_who_leave_do_not_cost_a_gateway_its_connection(unused_tcp_port):
    """Envoy takes a burst of resets for what it is, though none of the calls had an answer yet."""
    async with running_service(
        num_replicas=1, num_gateways=1, gateway_flags=("--max-connections", 2 * NUM_CANCELS)
    ) as service:
        envoy, (replica,), (gateway,) = service.envoy, service.replicas, service.gateways
        connections = await envoy.stat("http.internal.downstream_cx_active")
        destroyed = await envoy.stat("http.internal.downstream_cx_destroy")
        resets = await envoy.stat("http.internal.downstream_rq_rx_reset")
        replica.process.send_signal(signal.SIGSTOP)
        async with http_session(f"http://{gateway}") as client:
            callers = [
                asyncio.create_task(client.post("/v1/chat/completions", json=CHAT).__aenter__())
                for _ in range(NUM_CANCELS)
            ]
            await envoy.wait_for_stat(
                "http.internal.downstream_rq_active", lambda number: number >= NUM_CANCELS
            )
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
        await envoy.wait_for_stat(
            "http.internal.downstream_rq_rx_reset", lambda n: n >= resets + NUM_CANCELS
        )
        replica.process.send_signal(signal.SIGCONT)
        await envoy.wait_for_healthy(1)
        async with (
            http_session(f"http://{gateway}") as client,
            client.post("/v1/chat/completions", json=CHAT | {"max_tokens": 3}) as response,
        ):
            assert response.status == 200
            assert (await response.read()).endswith(b"data: [DONE]\n\n")
        assert await envoy.stat("http.internal.downstream_rq_too_many_premature_resets") == 0
        assert await envoy.stat("http.internal.downstream_cx_destroy") == destroyed
        assert await envoy.stat("http.internal.downstream_cx_active") == connections


async def test_gateways_that_are_not_ready_get_nothing():
    """/readyz decides which of two gateways is used."""
    async with (
        running_service(num_gateways=1) as service,
        http_session(service.url) as client,
    ):
        addresses = [replica.address for replica in service.replicas]
        # Nobody listens at port 1.
        await service.envoy.point_to(addresses, [*service.gateways, "127.0.0.1:1"])
        await service.envoy.wait_for_healthy(1, "headrace_gateway")
        for _ in range(8):
            async with client.get("/v1/models") as response:
                assert response.status == 200


@pytest.mark.parametrize("path", ["/v1/models", "/"])
async def test_without_gateways_errors_have_the_shape_of_the_api(path):
    """What Envoy says by itself over HTTP is what clients of OpenAI can read."""
    async with (
        running_service(num_replicas=1) as service,
        http_session(service.url) as client,
        client.get(path) as response,
    ):
        assert response.status == 503
        assert response.headers["retry-after"] == "1"
        assert (await response.json())["error"] == {
            "message": "no healthy upstream",
            "type": "server_error",
            "param": None,
            "code": None,
        }


async def test_a_gateway_without_replicas_speaks_for_itself():
    """When the model is away the gateway's own words reach the client through Envoy."""
    async with (
        running_service("--lame-duck", 30, num_replicas=1, num_gateways=1) as service,
        http_session(service.url) as client,
    ):
        service.replicas[0].process.terminate()
        await service.envoy.wait_for_healthy(0, "headrace_gateway")
        async with client.post("/v1/chat/completions", json=CHAT) as response:
            assert response.status == 503
            assert (await response.json())["error"]["code"] == "draining"


async def test_a_caller_over_http_who_leaves_frees_the_engine():
    """Through Envoy, gateway and Envoy again, a closed connection is a cancel."""
    async with (
        running_service(*STEP, num_replicas=1, num_gateways=1) as service,
        http_session(service.url) as client,
    ):
        async with client.post(
            "/v1/chat/completions", json=CHAT | {"ignore_eos": True}
        ) as response:
            await next_event(response)
            assert await service.envoy.stat("cluster.headrace.upstream_rq_active") == 1
            response.close()
        await service.envoy.wait_for_stat("cluster.headrace.upstream_rq_active", 0)
        line = await service.envoy.wait_for_log(
            lambda line: line.get("kind") == "internal" and "Generate" in line["path"]
        )
        assert line["flags"] == "DR"
