"""Odd requests end as cases.yaml says, over HTTP and over gRPC, and the service lives on."""

import asyncio
import io
import json
import re
import time
from pathlib import Path

import aiohttp
import grpc
import pytest
import yaml
from google.protobuf import json_format

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from tests.gateway import case_bodies, case_scripts
from tests.gateway.service import MODEL, serving

CASES = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())
ROOT = Path(__file__).parents[2]
# For what grows with the square of the size, or never ends; a busy machine may be ten times slower.
HEALTH_SECONDS = 3.0
WITHIN_SECONDS = 20
BOUND_SECONDS = 60.0
KEY = "secret"
VERDICTS = {
    200: grpc.StatusCode.OK,
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
}


def cases(name, needs=()):
    """Return a parameter of the cases that have a field of this name."""
    found = [case for case in CASES if name in case and case.get("needs", []) == list(needs)]
    return pytest.mark.parametrize("case", found, ids=[case["id"] for case in found])


@pytest.fixture
async def session(service):
    timeout = aiohttp.ClientTimeout(total=BOUND_SECONDS)
    async with aiohttp.ClientSession(service.url, timeout=timeout) as session:
        yield session


@pytest.fixture(scope="module")
def keyed_service(tmp_path_factory):
    """A service that asks for a key on both fronts."""
    flags = ("--api-key", KEY)
    with serving(tmp_path_factory.mktemp("keyed"), flags, flags) as service:
        yield service


@pytest.fixture
async def keyed_session(keyed_service):
    timeout = aiohttp.ClientTimeout(total=BOUND_SECONDS)
    async with aiohttp.ClientSession(keyed_service.url, timeout=timeout) as session:
        yield session


def body_of(case):
    if "make" in case:
        return case_bodies.make(case["make"])
    text = case["text"] if "text" in case else json.dumps(case["json"])
    return text.replace("{model}", MODEL).encode()


async def send(session, case):
    """Return status, headers, bytes and seconds of the answer to a case."""
    headers = {"Content-Type": "application/json", **case.get("headers", {})}
    if "id_characters" in case:
        headers["X-Request-Id"] = "x" * case["id_characters"]
    has_body = any(key in case for key in ("json", "text", "make"))
    method, data = ("POST", io.BytesIO(body_of(case))) if has_body else ("GET", None)
    method = case.get("method", method)
    begin = time.monotonic()
    async with session.request(method, case["path"], data=data, headers=headers) as response:
        answer = await response.read()
    return response.status, response.headers, answer, time.monotonic() - begin


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


async def require_alive(session, **headers):
    small = {"prompt": "hey", "max_tokens": 2}
    async with session.post("/v1/completions", json=small, headers=headers) as response:
        assert response.status == 200


def check_answer(case, answer):
    if case.get("nonempty"):
        choice = json.loads(answer)["choices"][0]
        assert choice.get("text") or choice["message"]["content"]
    if "usage" in case:
        assert json.loads(answer)["usage"]["completion_tokens"] == case["usage"]
    if "absent_pattern" in case:
        for choice in json.loads(answer)["choices"]:
            assert re.search(case["absent_pattern"], choice["message"]["content"]) is None


def check_error(case, answer):
    error = json.loads(answer)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    for key in ("param", "code"):
        if key in case:
            assert error[key] == case[key]


@cases("status")
async def test_case(session, case):
    """The answer is what the case says, in its time, and a small request is answered after it."""
    exchange = asyncio.ensure_future(send(session, case))
    if case.get("health"):
        assert await slowest_health(session, exchange) < HEALTH_SECONDS
    status, _, answer, seconds = await exchange
    assert status in (case["status"] if isinstance(case["status"], list) else [case["status"]])
    assert seconds < case.get("within", WITHIN_SECONDS)
    if status == 200:
        check_answer(case, answer)
    elif status >= 400:
        check_error(case, answer)
    assert [word for word in case.get("absent", []) if word.encode() in answer] == []
    assert len(answer) <= case.get("max_bytes", len(answer))
    await require_alive(session)


@cases("status", needs=["api_key"])
async def test_case_of_keys(keyed_session, case):
    """Who has the key is answered, who has not is told so, and the service lives on."""
    status, headers, answer, _ = await send(keyed_session, case)
    assert status == case["status"]
    for name, value in case.get("answer_headers", {}).items():
        assert headers.get(name) == value
    if status >= 400:
        check_error(case, answer)
    assert [word for word in case.get("absent", []) if word.encode() in answer] == []
    await require_alive(keyed_session, Authorization=f"Bearer {KEY}")


@cases("script")
async def test_script(session, case):
    """The service does right by the script, and a small request is answered after it."""
    await getattr(case_scripts, case["script"])(session)
    await require_alive(session)


@cases("bytes")
async def test_bytes(service, session, case):
    """The bytes get these answers in their order."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    try:
        writer.write(case["bytes"].encode())
        async with asyncio.timeout(BOUND_SECONDS):
            reply = await reader.read()
    finally:
        writer.close()
    statuses = re.findall(rb"HTTP/1\.[01] (\d{3}) ", reply)
    assert [int(status) for status in statuses] == case["answers"]
    await require_alive(session)


@cases("elsewhere")
def test_elsewhere(case):
    """The test that has the case is there."""
    path, _, name = case["elsewhere"].partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_every_case_is_one():
    """Each has a name of its own and something that is checked."""
    names = [case["id"] for case in CASES]
    assert len(set(names)) == len(names)
    kinds = ({"status", "script", "bytes", "elsewhere"} & set(case) for case in CASES)
    assert [len(kind) for kind in kinds] == [1] * len(CASES)


async def verdict_of(call):
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@cases("grpc")
async def test_the_verdict_over_grpc_is_the_same(service, case):
    """What HTTP takes or refuses, gRPC takes or refuses."""
    await check_verdict(service, case)


@cases("grpc", needs=["api_key"])
async def test_the_verdict_on_keys_over_grpc_is_the_same(keyed_service, case):
    """What is a key over HTTP is one over gRPC."""
    await check_verdict(keyed_service, case)


async def check_verdict(service, case):
    request = json_format.ParseDict(case["grpc"], pb.GenerateRequest())
    metadata = tuple(case.get("grpc_headers", {}).items())
    async with grpc.aio.insecure_channel(service.grpc_address) as channel:
        stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
        call = stub.Generate(request, metadata=metadata)
        assert await verdict_of(call) is VERDICTS[case["status"]]
