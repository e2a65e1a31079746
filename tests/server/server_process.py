"""A server in a process of its own, as people start it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass

from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc

BOUND_SECONDS = 30.0
SIMULATED = ("--backend", "simulated", "--port", "0")


@dataclass(frozen=True)
class ServerProcess:
    process: asyncio.subprocess.Process
    address: str
    channel: aio.Channel

    def generate(self, **fields):
        stub = inference_service_pb2_grpc.InferenceServiceStub(self.channel)
        return stub.Generate(pb.GenerateRequest(**{"text": "Once"} | fields))

    async def wait_until_ready(self) -> None:
        async with asyncio.timeout(BOUND_SECONDS):
            while json.loads(await self.process.stdout.readline())["event"] != "ready":
                pass

    async def status(self) -> int:
        """Wait for the end and return the exit status."""
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.process.wait()


async def start(*arguments, **environment):
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace_server", *map(str, arguments)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environment,
    )


async def outcome(*arguments, **environment) -> tuple[int, str, str]:
    """Run a server that ends by itself: its status, stdout and stderr."""
    process = await start(*arguments, **environment)
    async with asyncio.timeout(BOUND_SECONDS):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def server_process(*arguments, until_ready=True):
    """Start a server and kill it on leaving, if it still runs."""
    process = await start(*SIMULATED, "--log-level", "error", *arguments)
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            listening = json.loads(await process.stdout.readline())
        assert listening["event"] == "listening"
        async with aio.insecure_channel(listening["address"]) as channel:
            server = ServerProcess(process, listening["address"], channel)
            if until_ready:
                await server.wait_until_ready()
            yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
