"""A client that begins too many requests is refused by Envoy, in the words of its protocol."""

import asyncio

import aiohttp
import grpc
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from tests.deploy.service import http_session, running_service

# What routes.yaml grants to a connection at once.
BURST = 100
NUM_CALLS = 3 * BURST


async def detokenize(stub):
    call = stub.Detokenize(pb.DetokenizeRequest(token_ids=[65]))
    return await call.code(), dict(await call.trailing_metadata()), await call.details()


async def test_a_flood_of_calls_is_resource_exhausted():
    """What is over the limit fails at once with a time to wait; other clients notice nothing."""
    async with running_service(num_replicas=1) as service:
        stub = inference_service_pb2_grpc.InferenceServiceStub(service.channel)
        results = await asyncio.gather(*(detokenize(stub) for _ in range(NUM_CALLS)))
        refused = [r for r in results if r[0] is grpc.StatusCode.RESOURCE_EXHAUSTED]
        assert sum(r[0] is grpc.StatusCode.OK for r in results) == NUM_CALLS - len(refused)
        assert NUM_CALLS - len(refused) >= BURST
        assert refused
        assert {trailers["grpc-retry-pushback-ms"] for _, trailers, _ in refused} == {"1000"}
        async with aio.insecure_channel(
            service.envoy.public, options=[("grpc.use_local_subchannel_pool", 1)]
        ) as other:
            code, _, _ = await detokenize(inference_service_pb2_grpc.InferenceServiceStub(other))
        assert code is grpc.StatusCode.OK
        line = await service.envoy.wait_for_log(lambda line: line.get("flags") == "RL")
        assert line["grpc"] == "RESOURCE_EXHAUSTED"


async def test_a_flood_over_http_is_429():
    """Over HTTP it is the status, the shape and the header that clients of OpenAI know."""
    async with (
        running_service(num_replicas=1, num_gateways=1) as service,
        aiohttp.ClientSession(service.url, connector=aiohttp.TCPConnector(limit=1)) as client,
    ):
        for _ in range(NUM_CALLS):
            async with client.get("/v1/models") as response:
                body = await response.json()
                if response.status != 200:
                    break
        assert response.status == 429
        assert response.headers["retry-after"] == "1"
        assert body["error"]["type"] == "rate_limit_error"
        assert body["error"]["code"] == "rate_limit_exceeded"
        async with http_session(service.url) as other, other.get("/v1/models") as response:
            assert response.status == 200


async def test_gateways_are_not_limited():
    """The one connection of a gateway carries all its callers."""
    async with running_service(num_replicas=1) as service:
        async with aio.insecure_channel(service.envoy.internal) as channel:
            stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
            results = await asyncio.gather(*(detokenize(stub) for _ in range(NUM_CALLS)))
        assert {code for code, _, _ in results} == {grpc.StatusCode.OK}
