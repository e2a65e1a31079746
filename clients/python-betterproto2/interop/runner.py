"""The runner of tests/interop: makes calls as the lines of stdin say, and tells what it saw."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpclib.const import Status
from grpclib.events import RecvInitialMetadata, RecvTrailingMetadata, listen
from headrace_api.grpc.health.v1 import HealthCheckRequest, HealthStub
from headrace_api.headrace.v1 import (
    DetokenizeRequest,
    GenerateRequest,
    GetModelRequest,
    InferenceServiceStub,
    ListModelsRequest,
    ModelServiceStub,
    TokenizeRequest,
)
from headrace_client import HeadraceError, open_channel, raising_own_errors, tls_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from grpclib.client import Channel

LONGEST_LINE_BYTES = 16 * 1024 * 1024
METHODS = {
    "Generate": (InferenceServiceStub, "generate", GenerateRequest),
    "Tokenize": (InferenceServiceStub, "tokenize", TokenizeRequest),
    "Detokenize": (InferenceServiceStub, "detokenize", DetokenizeRequest),
    "GetModel": (ModelServiceStub, "get_model", GetModelRequest),
    "ListModels": (ModelServiceStub, "list_models", ListModelsRequest),
    "HealthCheck": (HealthStub, "check", HealthCheckRequest),
    "HealthWatch": (HealthStub, "watch", HealthCheckRequest),
}


class LeftError(Exception):
    """The call is to be left here."""


@dataclass
class Call:
    """What is to be seen of a call; events of the channel tell its metadata, in its own task."""

    cancel: str | None
    headers: dict[str, str] = field(default_factory=dict)
    trailers: dict[str, str] = field(default_factory=dict)
    responses: list[Any] = field(default_factory=list)


current: ContextVar[Call] = ContextVar("current")


async def main() -> None:
    given = arguments()
    lines = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer
    )
    tls = tls_context(given.ca_certs, given.certfile, given.keyfile) if given.ca_certs else None
    async with open_channel(given.target, tls) as channel:
        listen(channel, RecvInitialMetadata, on_headers)
        listen(channel, RecvTrailingMetadata, on_trailers)
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


async def on_headers(event: RecvInitialMetadata) -> None:
    call = current.get()
    call.headers = text_metadata(event.metadata)
    # An error without headers has empty ones here.
    if call.cancel == "after_headers" and call.headers:
        raise LeftError


async def on_trailers(event: RecvTrailingMetadata) -> None:
    current.get().trailers = text_metadata(event.metadata)


async def answer(channel: Channel, asked: dict[str, Any], api_key: str | None) -> dict[str, Any]:
    if "compression" in asked:
        return {"id": asked["id"], "unsupported": "grpclib does not compress messages."}
    requests = asked.get("requests") or [asked.get("request", {})] * asked.get("count", 1)
    # Each in a task, and so in a context, of its own.
    calls = [make_call(channel, asked, request, api_key) for request in requests]
    return {"id": asked["id"], "calls": await asyncio.gather(*calls)}


async def make_call(
    channel: Channel, asked: dict[str, Any], request: dict[str, Any], api_key: str | None
) -> dict[str, Any]:
    """Make one call, and return all that is to be seen of it."""
    began = time.monotonic()
    call = Call(asked.get("cancel"))
    current.set(call)
    code, error = Status.OK, None
    try:
        with raising_own_errors():
            async with aclosing(responses(channel, asked, request, api_key)) as stream:
                async for response in stream:
                    call.responses.append(response)
                    if call.cancel == "after_first_message":
                        raise LeftError
                    await asyncio.sleep(asked.get("read_pause_ms", 0) / 1000)
    except HeadraceError as raised:
        code, error = raised.code, raised
    except LeftError:
        code = Status.CANCELLED
    return {
        "code": code.name,
        "message": error.message if error else "",
        "reason": error.reason if error else None,
        "field": error.field if error else None,
        "retry_delay_ms": error.retry_seconds * 1000 if error and error.retry_seconds else None,
        "headers": call.headers,
        "trailers": call.trailers,
        "responses": [response.to_dict() for response in call.responses],
        "elapsed_ms": (time.monotonic() - began) * 1000,
    }


async def responses(
    channel: Channel, asked: dict[str, Any], request: dict[str, Any], api_key: str | None
) -> AsyncIterator[Any]:
    """The responses of any method; of one that has a single response, that one."""
    stub_class, name, request_class = METHODS[asked["method"]]
    metadata = dict(asked.get("metadata", {}))
    if key := asked.get("api_key", api_key):
        metadata["authorization"] = f"Bearer {key}"
    timeout = asked["timeout_ms"] / 1000 if "timeout_ms" in asked else None
    stub = stub_class(channel, timeout=timeout, metadata=metadata)
    called = getattr(stub, name)(request_class.from_dict(request))
    if not hasattr(called, "__aiter__"):
        yield await called
        return
    async with aclosing(called) as stream:
        async for response in stream:
            yield response


def text_metadata(metadata: Any) -> dict[str, str]:
    text: dict[str, str] = {}
    for key, value in metadata.items():
        if isinstance(value, str):
            text[key] = f"{text[key]}, {value}" if key in text else value
    return text


if __name__ == "__main__":
    asyncio.run(main())
