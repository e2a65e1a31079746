"""The reference client: sends a prompt as a chat and prints the answer as it comes."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc as rpc
from headrace.v1.prompt_pb2 import ROLE_USER, Chat, ChatMessage
from headrace.v1.stopping_pb2 import Stopping

INTERRUPTED = 130


async def main() -> int:
    given = arguments()
    metadata = [("authorization", f"Bearer {given.api_key}")] if given.api_key else []
    async with open_channel(given) as channel:
        call = rpc.InferenceServiceStub(channel).Generate(
            request(given), timeout=given.timeout, metadata=metadata
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, call.cancel)
        try:
            async for response in call:
                for delta in response.deltas:
                    print(delta.text, end="", flush=True)
        except aio.AioRpcError as error:
            print(f"error: {sentence(error)}", file=sys.stderr)
            return 1
        except asyncio.CancelledError:
            return INTERRUPTED
    print()
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="localhost:1920")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--ca-certs", type=Path)
    parser.add_argument("--certfile", type=Path)
    parser.add_argument("--keyfile", type=Path)
    parser.add_argument("--api-key", default=os.environ.get("HEADRACE_API_KEY"))
    parser.add_argument("--max-tokens", type=int)
    parser.add_argument("--timeout", type=float)
    parser.add_argument("prompt")
    return parser.parse_args()


def open_channel(given: argparse.Namespace) -> aio.Channel:
    if not (given.tls or given.ca_certs or given.certfile):
        return aio.insecure_channel(given.target)
    ca, key, cert = (
        file.read_bytes() if file else None
        for file in (given.ca_certs, given.keyfile, given.certfile)
    )
    return aio.secure_channel(given.target, grpc.ssl_channel_credentials(ca, key, cert))


def request(given: argparse.Namespace) -> pb.GenerateRequest:
    message = ChatMessage(role=ROLE_USER, content=given.prompt)
    return pb.GenerateRequest(
        chat=Chat(messages=[message]), stopping=Stopping(max_output_tokens=given.max_tokens)
    )


def sentence(error: aio.AioRpcError) -> str:
    """The reason, the message and, where it helps to try again, when."""
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    for detail in status_pb2.Status.FromString(packed).details:
        detail.Unpack(info) or detail.Unpack(retry)
    told = f"{info.reason or error.code().name}: {error.details()}"
    if retry.HasField("retry_delay"):
        told += f"; retry in {retry.retry_delay.ToMilliseconds() / 1000:.1f} s"
    return told


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
