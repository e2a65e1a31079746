"""Replicas, Envoy before them, and HTTP gateways behind it: all in processes of their own."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc
from tests.deploy.envoy_process import BOUND_SECONDS, Envoy, running_envoy
from tests.server.server_process import ServerProcess, server_process

if TYPE_CHECKING:
    from collections.abc import Sequence

ENDLESS = {"ignore_end_of_text": True}


@dataclass(frozen=True)
class Service:
    """A whole service.

    Args:
        replicas: servers, as Envoy knows them from its start.
        envoy: before them.
        gateways: their addresses; Envoy knows these, too.
        channel: to Envoy's port for clients.
    """

    replicas: Sequence[ServerProcess]
    envoy: Envoy
    gateways: Sequence[str]
    channel: aio.Channel

    @property
    def url(self) -> str:
        """Of Envoy's port for clients."""
        return f"http://{self.envoy.public}"

    def generate(self, *, timeout=None, metadata=None, **fields):
        """Call Generate through Envoy, with an answer that has no end of its own unless told."""
        if not {"text", "token_ids", "chat"} & fields.keys():
            fields["text"] = "Once"
        fields.setdefault("stopping", ENDLESS)
        stub = inference_service_pb2_grpc.InferenceServiceStub(self.channel)
        return stub.Generate(pb.GenerateRequest(**fields), timeout=timeout, metadata=metadata)

    async def replica_of(self, call) -> ServerProcess:
        """Return the replica that has answered, once the call is over."""
        request_id = dict(await call.initial_metadata())["x-request-id"]
        line = await self.envoy.wait_for_log(
            lambda line: line.get("kind") == "request" and line["request_id"] == request_id
        )
        return next(r for r in self.replicas if r.address == line["replica"])


@asynccontextmanager
async def running_service(
    *flags,
    num_replicas=2,
    own_flags=None,
    num_gateways=0,
    gateway_flags=(),
    variant="plain",
    certificates=None,
):
    """Start everything and wait until Envoy takes the replicas for healthy.

    Args:
        flags: of all replicas.
        num_replicas: how many.
        own_flags: further flags of each replica.
        num_gateways: how many.
        gateway_flags: of all gateways.
        variant: of Envoy's files.
        certificates: see `running_envoy`.
    """
    async with AsyncExitStack() as stack:
        own_flags = own_flags or [()] * num_replicas
        replicas = [
            await stack.enter_async_context(server_process(*flags, *own)) for own in own_flags
        ]
        addresses = [replica.address for replica in replicas]
        envoy = await stack.enter_async_context(
            running_envoy(variant, addresses, certificates=certificates)
        )
        await envoy.wait_for_healthy(len(replicas))
        gateways = [
            await stack.enter_async_context(
                gateway_process("--upstream", envoy.internal, *gateway_flags)
            )
            for _ in range(num_gateways)
        ]
        if gateways:
            await envoy.point_to(addresses, gateways)
            await envoy.wait_for_healthy(len(gateways), "headrace_gateway")
        channel = await stack.enter_async_context(aio.insecure_channel(envoy.public))
        yield Service(replicas, envoy, gateways, channel)


@asynccontextmanager
async def gateway_process(*flags):
    """Start an HTTP gateway, and kill it on leaving; yields its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace_gateway", "--port", "0", "--log-level", "error"),
        *map(str, flags),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            listening = json.loads(await process.stdout.readline())
        assert listening["event"] == "listening"
        yield listening["address"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def http_session(url):
    """An HTTP client whose connections end with their requests."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        yield session
