"""The runner of tests/interop: makes calls as the lines of stdin say, and tells what it saw."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from google.protobuf.json_format import MessageToDict, ParseDict
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.health.v1.health_grpc import HealthStub
from headrace.v1.inference_service_grpc import InferenceServiceStub
from headrace.v1.model_service_grpc import ModelServiceStub
from headrace_client import HeadraceError, raising_own_errors, tls_context

if TYPE_CHECKING:
    from grpclib.client import ServiceMethod, Stream
    from multidict import MultiDict

LONGEST_LINE_BYTES = 16 * 1024 * 1024


async def main() -> None:
    given = arguments()
    lines = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer
    )
    host, _, port = given.target.rpartition(":")
    tls = tls_context(given.ca_certs, given.certfile, given.keyfile) if given.ca_certs else None
    async with Channel(host, int(port), ssl=tls) as channel:
        while line := await lines.readline():
            print(json.dumps(await answer(channel, json.loads(line), given.api_key)), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--ca-certs")
    parser.add_argument("--certfile")
    parser.add_argument("--keyfile")
    parser.add_argument("--api-key")
    return parser.parse_args()


async def answer(channel: Channel, asked: dict[str, Any], api_key: str | None) -> dict[str, Any]:
    if "compression" in asked:
        return {"id": asked["id"], "unsupported": "grpclib does not compress messages."}
    requests = asked.get("requests") or [asked.get("request", {})] * asked.get("count", 1)
    calls = [make_call(channel, asked, request, api_key) for request in requests]
    return {"id": asked["id"], "calls": await asyncio.gather(*calls)}


async def make_call(
    channel: Channel, asked: dict[str, Any], request: dict[str, Any], api_key: str | None
) -> dict[str, Any]:
    """Make one call, and return all that is to be seen of it."""
    began = time.monotonic()
    method = method_of(channel, asked["method"])
    metadata = dict(asked.get("metadata", {}))
    if key := asked.get("api_key", api_key):
        metadata["authorization"] = f"Bearer {key}"
    timeout = asked["timeout_ms"] / 1000 if "timeout_ms" in asked else None
    stream = method.open(timeout=timeout, metadata=metadata)
    responses: list[Any] = []
    error = None
    try:
        with raising_own_errors():
            async with stream:
                await stream.send_message(ParseDict(request, method.request_type()), end=True)
                await read(stream, asked, responses)
    except HeadraceError as raised:
        error = raised
    code = error.code if error else Status.CANCELLED if stream._cancel_done else Status.OK
    return {
        "code": code.name,
        "message": error.message if error else "",
        "reason": error.reason if error else None,
        "field": error.field if error else None,
        "retry_delay_ms": error.retry_seconds * 1000 if error and error.retry_seconds else None,
        "headers": text_metadata(stream.initial_metadata),
        "trailers": text_metadata(stream.trailing_metadata),
        "responses": [MessageToDict(response) for response in responses],
        "elapsed_ms": (time.monotonic() - began) * 1000,
    }


async def read(stream: Stream[Any, Any], asked: dict[str, Any], responses: list[Any]) -> None:
    """Read a call to its end, or to where it is to be cancelled."""
    await stream.recv_initial_metadata()
    if asked.get("cancel") == "after_headers":
        await stream.cancel()
        return
    async for response in stream:
        responses.append(response)
        if asked.get("cancel") == "after_first_message":
            await stream.cancel()
            return
        await asyncio.sleep(asked.get("read_pause_ms", 0) / 1000)


def method_of(channel: Channel, name: str) -> ServiceMethod[Any, Any]:
    if name.startswith("Health"):
        return getattr(HealthStub(channel), name.removeprefix("Health"))
    stubs = InferenceServiceStub(channel), ModelServiceStub(channel)
    return next(getattr(stub, name) for stub in stubs if hasattr(stub, name))


def text_metadata(metadata: MultiDict[str | bytes] | None) -> dict[str, str]:
    text: dict[str, str] = {}
    for key, value in (metadata or {}).items():
        if isinstance(value, str):
            text[key] = f"{text[key]}, {value}" if key in text else value
    return text


if __name__ == "__main__":
    asyncio.run(main())
