"""Envoy itself can be stopped without a client noticing."""

import asyncio
import signal

import grpc
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from tests.deploy.envoy_config import ENVOY
from tests.deploy.envoy_process import BOUND_SECONDS
from tests.deploy.service import http_session, running_service
from tests.server.running_server import first

STEP = ("--simulated-step-seconds", 0.01)
# Four seconds of steps, longer than Envoy takes new connections once it drains.
STOPPING = {"max_output_tokens": 400, "ignore_end_of_text": True}


async def start_drain(envoy, seconds):
    port = str(envoy.admin._base_url.port)
    return await asyncio.create_subprocess_exec(ENVOY / "drain", str(seconds), port)


async def read_to_end(call):
    last = None
    while (response := await call.read()) is not aio.EOF:
        last = response
    return await call.code(), last.usage.output_token_count


async def test_streams_end_whole_and_new_clients_are_sent_elsewhere():
    """The script returns when the last stream is over; then SIGTERM ends nobody's answer."""
    async with running_service(*STEP) as service:
        calls = [service.generate(stopping=STOPPING) for _ in range(4)]
        await asyncio.gather(*map(first, calls))
        drain = await start_drain(service.envoy, seconds=60)
        results = await asyncio.gather(*map(read_to_end, calls))
        async with asyncio.timeout(BOUND_SECONDS):
            assert await drain.wait() == 0
        assert results == [(grpc.StatusCode.OK, 400)] * 4
        # The listener is closed: a balancer finds nobody here.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with aio.insecure_channel(service.envoy.public, options=options) as channel:
            stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
            code = await stub.Tokenize(pb.TokenizeRequest(text="Hi")).code()
        assert code is grpc.StatusCode.UNAVAILABLE
        assert await service.envoy.terminate() == 0


async def test_the_drain_has_an_end():
    """A stream that never ends does not hold up the script for longer than it is told."""
    async with running_service(*STEP, num_replicas=1) as service:
        call = service.generate()
        await first(call)
        drain = await start_drain(service.envoy, seconds=1)
        async with asyncio.timeout(BOUND_SECONDS):
            assert await drain.wait() == 0
        await first(call)
        call.cancel()


async def test_readiness_turns_at_once():
    """The probe of Envoy itself says 200, and 503 from the start of a drain."""
    async with (
        running_service(num_replicas=1) as service,
        http_session(f"http://{service.envoy.internal}") as client,
    ):
        async with client.get("/envoy/readyz") as response:
            assert response.status == 200
        drain = await start_drain(service.envoy, seconds=30)
        async with asyncio.timeout(BOUND_SECONDS):
            status = 200
            while status == 200:
                async with client.get("/envoy/readyz") as response:
                    status = response.status
        assert status == 503
        drain.send_signal(signal.SIGTERM)
        await drain.wait()


async def test_the_probe_is_not_for_clients():
    """At the port for clients there is no such path: it is the gateway's to say so."""
    async with (
        running_service(num_replicas=1, num_gateways=1) as service,
        http_session(service.url) as client,
        client.get("/envoy/readyz") as response,
    ):
        assert response.status == 404
        assert response.headers["server"] == "headrace"
