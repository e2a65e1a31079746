"""The reference runner: makes calls as the lines of stdin say, and tells on stdout what it saw."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path

import grpc
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2
from grpc import aio
from grpc_health.v1 import health_pb2

from headrace.v1 import inference_service_pb2, model_service_pb2

LONGEST_LINE_BYTES = 16 * 1024 * 1024
SERVICES = [
    inference_service_pb2.DESCRIPTOR.services_by_name["InferenceService"],
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"],
]
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
METHODS = {method.name: method for service in SERVICES for method in service.methods} | {
    f"Health{method.name}": method for method in HEALTH.methods
}
OPTIONS = [("grpc.enable_retries", 0)]


async def main() -> None:
    given = arguments()
    lines = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin.buffer
    )
    async with open_channel(given) as channel:
        while line := await lines.readline():
            asked = json.loads(line)
            requests = asked.get("requests") or [asked.get("request", {})] * asked.get("count", 1)
            calls = [make_call(channel, asked, request, given.api_key) for request in requests]
            answer = {"id": asked["id"], "calls": await asyncio.gather(*calls)}
            print(json.dumps(answer), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--ca-certs", type=Path)
    parser.add_argument("--certfile", type=Path)
    parser.add_argument("--keyfile", type=Path)
    parser.add_argument("--api-key")
    return parser.parse_args()


def open_channel(given: argparse.Namespace) -> aio.Channel:
    if given.ca_certs is None:
        return aio.insecure_channel(given.target, OPTIONS)
    credentials = grpc.ssl_channel_credentials(
        given.ca_certs.read_bytes(),
        given.keyfile.read_bytes() if given.keyfile else None,
        given.certfile.read_bytes() if given.certfile else None,
    )
    return aio.secure_channel(given.target, credentials, OPTIONS)


async def make_call(channel: aio.Channel, asked: dict, request: dict, api_key: str | None) -> dict:
    """Make one call, and return all that is to be seen of it."""
    began = time.monotonic()
    call = begin_call(channel, asked, request, api_key)
    responses: list = []
    try:
        await read(call, asked, responses)
    except aio.AioRpcError:
        pass  # the status says it
    except asyncio.CancelledError:
        if not call.cancelled():
            raise
    return {
        **status_of(await call.code(), await call.details(), await call.trailing_metadata()),
        "headers": text_metadata(await call.initial_metadata()),
        "responses": [json_format.MessageToDict(response) for response in responses],
        "elapsed_ms": (time.monotonic() - began) * 1000,
    }


def begin_call(channel: aio.Channel, asked: dict, request: dict, api_key: str | None) -> aio.Call:
    method = METHODS[asked["method"]]
    request_class, response_class = (
        method.input_type._concrete_class,
        method.output_type._concrete_class,
    )
    metadata = list(asked.get("metadata", {}).items())
    if key := asked.get("api_key", api_key):
        metadata.append(("authorization", f"Bearer {key}"))
    gzip = grpc.Compression.Gzip if asked.get("compression") == "gzip" else None
    multi_callable = channel.unary_stream if method.server_streaming else channel.unary_unary
    return multi_callable(
        f"/{method.containing_service.full_name}/{method.name}",
        request_class.SerializeToString,
        response_class.FromString,
    )(
        json_format.ParseDict(request, request_class()),
        timeout=asked["timeout_ms"] / 1000 if "timeout_ms" in asked else None,
        metadata=metadata,
        compression=gzip,
    )


async def read(call: aio.Call, asked: dict, responses: list) -> None:
    """Read a call to its end, or to where it is to be cancelled."""
    if asked.get("cancel") == "after_headers":
        await call.initial_metadata()
        call.cancel()
    if isinstance(call, aio.UnaryUnaryCall):
        responses.append(await call)
        return
    while (response := await call.read()) is not aio.EOF:
        responses.append(response)
        if asked.get("cancel") == "after_first_message":
            call.cancel()
        await asyncio.sleep(asked.get("read_pause_ms", 0) / 1000)


def status_of(code: grpc.StatusCode, message: str, trailers: aio.Metadata) -> dict:
    info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    packed = dict(trailers or ()).get("grpc-status-details-bin", b"")
    for detail in status_pb2.Status.FromString(packed).details:
        for known in (info, request, retry):
            detail.Unpack(known)
    violations = request.field_violations
    return {
        "code": code.name,
        "message": message,
        "reason": info.reason or None,
        "field": violations[0].field if violations else None,
        "retry_delay_ms": retry.retry_delay.ToMilliseconds() or None,
        "trailers": text_metadata(trailers),
    }


def text_metadata(metadata: aio.Metadata | None) -> dict[str, str]:
    text: dict[str, str] = {}
    for key, value in metadata or ():
        if isinstance(value, str):
            text[key] = f"{text[key]}, {value}" if key in text else value
    return text


if __name__ == "__main__":
    asyncio.run(main())
