"""JSON over HTTP to the services of the contract, by curl as people use it."""

import asyncio
import json
import struct

import pytest

from headrace.v1 import inference_service_pb2 as pb
from tests.deploy.envoy_process import BOUND_SECONDS
from tests.deploy.service import http_session, running_service

STEP = ("--simulated-step-seconds", 0.01)


async def start_curl(service, method, request, *options):
    return await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--no-buffer", "--write-out", r"\n%{http_code}", *options),
        *("--header", "Content-Type: application/json", "--data", json.dumps(request)),
        f"{service.url}/headrace.v1.{method}",
        stdout=asyncio.subprocess.PIPE,
    )


async def curl(service, method, request, *options):
    """Return the status and the body."""
    process = await start_curl(service, method, request, *options)
    async with asyncio.timeout(BOUND_SECONDS):
        out, _ = await process.communicate()
    body, _, status = out.decode().rpartition("\n")
    return int(status), body


async def test_one_request_has_one_answer():
    """What is unary is one object, in ProtoJSON."""
    async with running_service(num_replicas=1) as service:
        status, body = await curl(service, "InferenceService/Tokenize", {"text": "Hi"})
        assert (status, json.loads(body)["tokenIds"]) == (200, [72, 105])
        status, body = await curl(service, "ModelService/ListModels", {})
        assert (status, json.loads(body)["models"][0]["name"]) == (200, "simulated")


async def test_a_stream_is_one_object_a_line():
    """The lines come one by one while the answer is made."""
    async with running_service(*STEP, num_replicas=1) as service:
        request = {"text": "Once", "stopping": {"ignoreEndOfText": True}}
        process = await start_curl(service, "InferenceService/Generate", request)
        async with asyncio.timeout(BOUND_SECONDS):
            lines = [json.loads(await process.stdout.readline()) for _ in range(3)]
        assert lines[0]["prompt"]["tokenCount"] > 0
        process.terminate()
        await process.communicate()
        await service.envoy.wait_for_stat("cluster.headrace.upstream_rq_active", 0)
        request["stopping"]["maxOutputTokens"] = 10
        status, body = await curl(service, "InferenceService/Generate", request)
        assert status == 200
        assert json.loads(body.splitlines()[-1])["usage"]["outputTokenCount"] == 10


async def test_a_refusal_is_an_http_error_with_details():
    """Before the first byte an error has the status that fits, and its reason in the body."""
    async with running_service(num_replicas=1) as service:
        request = {"text": "Once", "sampling": {"temperature": -1}}
        status, body = await curl(service, "InferenceService/Generate", request)
        error = json.loads(body)
        assert (status, error["code"]) == (400, 3)
        assert {detail.get("reason") for detail in error["details"]} >= {"INVALID_FIELD"}
        assert "sampling.temperature" in body
        status, _ = await curl(service, "InferenceService/Generate", {"txet": "Once"})
        assert status == 400


async def test_a_long_prompt_passes():
    """JSON has the same limit as gRPC, 4 MiB, not that of a buffer."""
    async with running_service(num_replicas=1) as service:
        request = json.dumps({"text": "a " * 400_000})
        file = service.envoy.folder.path / "request.json"
        file.write_text(request)
        process = await asyncio.create_subprocess_exec(
            *("curl", "--silent", "--header", "Content-Type: application/json", "--data"),
            *(f"@{file}", f"{service.url}/headrace.v1.InferenceService/Generate"),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        assert "CONTEXT_LENGTH_EXCEEDED" in out.decode()


async def test_a_stream_that_fails_midway_ends_as_a_clean_200():
    """The known limit: curl cannot tell a broken answer, but by its missing usage."""
    async with running_service(*STEP, "--shutdown-timeout", 0.2, num_replicas=1) as service:
        request = {"text": "Once", "stopping": {"ignoreEndOfText": True}}
        process = await start_curl(service, "InferenceService/Generate", request)
        await process.stdout.readline()
        service.replicas[0].process.terminate()
        out, _ = await process.communicate()
        assert (process.returncode, out.decode().rpartition("\n")[2]) == (0, "200")
        assert "usage" not in out.decode()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/headrace.v1.InferenceService/Nope"),
        ("POST", "/headrace.v1.Nope/Generate"),
        ("POST", "/grpc.health.v1.Health/Check"),
        ("POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"),
        ("GET", "/headrace.v1.InferenceService/Generate"),
        ("PUT", "/grpc.health.v1.Health/Check"),
    ],
)
async def test_what_is_no_call_is_refused_at_once(method, path):
    """A replica would break it off, and after three tries it would look like a fault of ours."""
    async with (
        running_service(num_replicas=1) as service,
        http_session(service.url) as client,
        client.request(method, path, json={}) as response,
    ):
        assert response.status == 404
        assert "Retry-After" not in response.headers
        error = (await response.json())["error"]
        assert error["type"] == "invalid_request_error"
        assert await service.envoy.stat("cluster.headrace.upstream_rq_total") == 0


async def test_a_call_over_http_1_needs_no_trailers():
    """Clients that cannot have them do not say so, and a replica would break that off, too."""
    async with running_service(num_replicas=1) as service, http_session(service.url) as client:
        message = pb.TokenizeRequest(text="Hi").SerializeToString()
        async with client.post(
            "/headrace.v1.InferenceService/Tokenize",
            data=struct.pack(">BI", 0, len(message)) + message,
            headers={"Content-Type": "application/grpc"},
        ) as response:
            body = await response.read()
        assert list(pb.TokenizeResponse.FromString(body[5:]).token_ids) == [72, 105]
