"""A whole server in this process, on the simulated backend, with a client's view of it."""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import asynccontextmanager
from dataclasses import dataclass

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import (
    inference_service_pb2_grpc,
    model_service_pb2_grpc,
)
from headrace_server.app import Server, open_server
from headrace_server.config import read_config

BOUND_SECONDS = 20.0
ENDLESS = {"ignore_end_of_text": True}


@dataclass(frozen=True)
class Under:
    """A server under test and a channel to it."""

    server: Server
    channel: aio.Channel

    @property
    def address(self) -> str:
        return self.server.address

    @property
    def backend(self):
        return self.server.backend

    @property
    def inference(self):
        return inference_service_pb2_grpc.InferenceServiceStub(self.channel)

    @property
    def models(self):
        return model_service_pb2_grpc.ModelServiceStub(self.channel)

    def generate(self, *, timeout=None, metadata=None, **fields):
        """Call Generate with an answer that has no end of its own, unless told otherwise."""
        if not {"text", "token_ids", "chat"} & fields.keys():
            fields["text"] = "Once"
        fields.setdefault("stopping", ENDLESS)
        return self.inference.Generate(
            pb.GenerateRequest(**fields), timeout=timeout, metadata=metadata
        )

    async def all_returned(self) -> None:
        """Wait until nothing of any request is left, neither in the front nor in the engine."""

        def nothing_left() -> bool:
            load = self.backend.load
            return (
                load.num_opened == load.num_closed
                and load.num_running == load.num_waiting == 0
                and load.num_free_blocks == load.num_total_blocks
                and self.server.calls.num_live == 0
            )

        await eventually(nothing_left, lambda: f"{self.backend.load} {self.server.calls.num_live}")


@asynccontextmanager
async def running_server(
    *arguments,
    channel_options=(),
    credentials=None,
    until_ready=True,
    ready_seconds=BOUND_SECONDS,
    **rpc,
):
    """Open a server with these flags; `rpc` replaces fields of its `RpcConfig`.

    The channel to it speaks TLS where there are credentials for it.
    """
    config = read_config(["--backend", "simulated", "--port", "0", *map(str, arguments)], {})
    config = dataclasses.replace(config, rpc=dataclasses.replace(config.rpc, **rpc))
    async with (
        open_server(config) as server,
        open_channel(server.address, credentials, channel_options) as channel,
    ):
        if until_ready:
            async with asyncio.timeout(ready_seconds):
                while not await server.availability.wait_for_change(seen=False):
                    pass
        yield Under(server, channel)


def open_channel(address, credentials=None, options=()):
    """Open a channel, with TLS where there are credentials for it."""
    # A pool of its own: else two channels of one test may share a connection.
    options = (*options, ("grpc.use_local_subchannel_pool", 1))
    if credentials is None:
        return aio.insecure_channel(address, options=options)
    return aio.secure_channel(address, credentials, options=options)


async def eventually(condition, describe=lambda: "") -> None:
    """Wait until a condition holds that has no event of its own."""
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            while not condition():  # noqa: ASYNC110  # what it asks for has no event
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise AssertionError(f"did not happen: {describe()}") from None


async def collect(call) -> list[pb.GenerateResponse]:
    """Read a stream to its end."""
    return [response async for response in call]


def text_of(responses) -> str:
    """Join the text of responses."""
    return "".join(delta.text for response in responses for delta in response.deltas)


async def first(call) -> pb.GenerateResponse:
    """Read one response."""
    response = await call.read()
    assert response is not aio.EOF, await call.details()
    return response


async def failure(call) -> Failure:
    """Read a call to its end, which must be an error."""
    try:
        if hasattr(call, "read"):
            while await call.read() is not aio.EOF:
                pass
        else:
            await call
    except aio.AioRpcError:
        pass
    code = await call.code()
    assert code is not grpc.StatusCode.OK
    return Failure.of(code, await call.details(), await call.trailing_metadata())


@dataclass(frozen=True)
class Failure:
    """A status with its details."""

    code: grpc.StatusCode
    message: str
    reason: str | None
    field: str | None
    retry_seconds: float | None
    trailers: dict

    @classmethod
    def of(cls, code, message, trailing_metadata) -> Failure:
        trailers = dict(trailing_metadata or ())
        info, bad_request, retry = (
            error_details_pb2.ErrorInfo(),
            error_details_pb2.BadRequest(),
            error_details_pb2.RetryInfo(),
        )
        packed = status_pb2.Status.FromString(trailers.get("grpc-status-details-bin", b""))
        for detail in packed.details:
            assert detail.Unpack(info) or detail.Unpack(bad_request) or detail.Unpack(retry)
        violations = bad_request.field_violations
        delay = retry.retry_delay.ToMilliseconds()
        assert (str(delay) if delay else None) == trailers.get("grpc-retry-pushback-ms")
        return cls(
            code=code,
            message=message,
            reason=info.reason or None,
            field=violations[0].field if violations else None,
            retry_seconds=delay / 1000 if delay else None,
            trailers=trailers,
        )
