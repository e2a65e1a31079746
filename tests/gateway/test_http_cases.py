"""Odd requests end as http_cases.yaml says, over HTTP and over gRPC, and the service lives on."""

import asyncio
import io
import json
import time
from pathlib import Path

import aiohttp
import grpc
import pytest
import yaml
from google.protobuf import json_format

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from tests.gateway.service import MODEL

CASES = yaml.safe_load(Path(__file__).with_name("http_cases.yaml").read_text())
# For what grows with the square of the size, or never ends; a busy machine may be ten times slower.
HEALTH_SECONDS = 3.0
WITHIN_SECONDS = 20
VERDICTS = {
    200: grpc.StatusCode.OK,
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
}


def long_chat():
    return {"messages": [{"role": "user", "content": "word " * 20_000}], "max_tokens": 5}


def prompt_of_three_megabytes():
    return {"prompt": "a word " * 430_000}


def prompt_of_five_megabytes():
    return {"prompt": "a word " * 720_000}


def long_label():
    return {"prompt": "hey", "request_id": "x" * 129}


def not_utf8():
    return b'{"prompt": "\xff\xfe"}'


def byte_order_mark():
    return b'\xef\xbb\xbf{"prompt": "hey"}'


def deep_array():
    return b'{"messages": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


MAKERS = {
    maker.__name__: maker
    for maker in (
        long_chat,
        prompt_of_three_megabytes,
        prompt_of_five_megabytes,
        long_label,
        not_utf8,
        byte_order_mark,
        deep_array,
    )
}


def body_of(case):
    if "make" in case:
        made = MAKERS[case["make"]]()
        return made if isinstance(made, bytes) else json.dumps(made).encode()
    text = case["text"] if "text" in case else json.dumps(case["json"])
    return text.replace("{model}", MODEL).encode()


async def send(session, case):
    """Return status, bytes and seconds of the answer to a case."""
    headers = {"Content-Type": "application/json", **case.get("headers", {})}
    if "id_characters" in case:
        headers["X-Request-Id"] = "x" * case["id_characters"]
    has_body = any(key in case for key in ("json", "text", "make"))
    method, data = ("POST", io.BytesIO(body_of(case))) if has_body else ("GET", None)
    begin = time.monotonic()
    async with session.request(method, case["path"], data=data, headers=headers) as response:
        answer = await response.read()
    return response.status, answer, time.monotonic() - begin


async def slowest_health(session, until):
    """Ask for health again and again and return the longest time that it took."""
    slowest = 0.0
    while not until.done():
        begin = time.monotonic()
        async with session.get("/health") as response:
            assert response.status == 200
            await response.read()
        slowest = max(slowest, time.monotonic() - begin)
        await asyncio.wait([until], timeout=0.01)
    return slowest


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
async def test_case(service, case):
    """The answer is what the case says, in its time, and a small request is answered after it."""
    async with aiohttp.ClientSession(service.url) as session:
        exchange = asyncio.ensure_future(send(session, case))
        if case.get("health"):
            assert await slowest_health(session, exchange) < HEALTH_SECONDS
        status, answer, seconds = await exchange
        assert status in (case["status"] if isinstance(case["status"], list) else [case["status"]])
        assert seconds < case.get("within", WITHIN_SECONDS)
        if status != 200:
            error = json.loads(answer)["error"]
            for key in ("param", "code"):
                if key in case:
                    assert error[key] == case[key]
        if case.get("nonempty"):
            choice = json.loads(answer)["choices"][0]
            assert choice.get("text") or choice["message"]["content"]
        if "usage" in case:
            assert json.loads(answer)["usage"]["completion_tokens"] == case["usage"]
        assert [word for word in case.get("absent", []) if word.encode() in answer] == []
        assert len(answer) <= case.get("max_bytes", len(answer))
        small = {"prompt": "hey", "max_tokens": 2}
        async with session.post("/v1/completions", json=small) as response:
            assert response.status == 200


async def verdict_of(call):
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize(
    "case", [c for c in CASES if "grpc" in c], ids=[c["id"] for c in CASES if "grpc" in c]
)
async def test_the_verdict_over_grpc_is_the_same(service, case):
    """What HTTP takes or refuses, gRPC takes or refuses."""
    request = json_format.ParseDict(case["grpc"], pb.GenerateRequest())
    async with grpc.aio.insecure_channel(service.grpc_address) as channel:
        call = inference_service_pb2_grpc.InferenceServiceStub(channel).Generate(request)
        assert await verdict_of(call) is VERDICTS[case["status"]]
