"""Asks a Headrace server over gRPC."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
from grpc import aio

from comparison.answer import Answer
from comparison.load import RequestFailedError
from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from headrace.v1.sampling_pb2 import Sampling
from headrace.v1.stopping_pb2 import Stopping

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class GrpcClient:
    """Streams Generate."""

    def __init__(self, stub: inference_service_pb2_grpc.InferenceServiceAsyncStub) -> None:
        self._stub = stub

    async def ask(self, prompt: str, num_output_tokens: int) -> Answer:
        """See `Asker`."""
        request = pb.GenerateRequest(
            text=prompt,
            sampling=Sampling(temperature=0),
            stopping=Stopping(max_output_tokens=num_output_tokens, ignore_end_of_text=True),
        )
        pieces: list[float] = []
        begin = time.perf_counter()
        try:
            async for response in self._stub.Generate(request):
                now = time.perf_counter()
                pieces.extend(now for delta in response.deltas if delta.text)
        except grpc.RpcError as error:
            raise RequestFailedError(str(error)) from error
        end = time.perf_counter()
        usage = response.usage
        return Answer(begin, tuple(pieces), end, usage.prompt_token_count, usage.output_token_count)


@asynccontextmanager
async def grpc_client(address: str) -> AsyncIterator[GrpcClient]:
    """Open a client on one connection."""
    async with aio.insecure_channel(address) as channel:
        yield GrpcClient(inference_service_pb2_grpc.InferenceServiceStub(channel))
