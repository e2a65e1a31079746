"""A server in a process of its own, with what it tells of itself: its log and its metrics."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

BOUND_SECONDS = 30.0
STEP_SECONDS = 0.005
FLAGS = (
    *("--backend", "simulated", "--port", "0", "--metrics-port", "0"),
    *("--log-level", "debug", "--log-format", "json"),
    *("--simulated-step-seconds", str(STEP_SECONDS)),
)


class ServerError(AssertionError):
    """The server did not do what it must, in time."""


class ServerProcess:
    """A running server.

    Attributes:
        process: of the operating system.
        address: of gRPC, as host:port.
        calls: the lines of its access log so far, in order.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.address = ""
        self.calls: list[dict] = []
        self._metrics_address = ""
        self._log: list[str] = []
        self._news = asyncio.Condition()

    async def follow_log(self) -> None:
        """Read stderr to its end."""
        while line := await self.process.stderr.readline():
            async with self._news:
                self._take(line.decode())
                self._news.notify_all()

    def _take(self, line: str) -> None:
        try:
            told = json.loads(line)
        except ValueError:  # what is no log, such as a warning of a library
            self._log.append(line)
            return
        if told["level"] != "debug":
            self._log.append(line)
        if told["event"] == "call":
            self.calls.append(told)
        elif told["event"] == "serving metrics":
            self._metrics_address = told["address"]

    async def wait_until_ready(self) -> None:
        async with asyncio.timeout(BOUND_SECONDS):
            while line := await self.process.stdout.readline():
                told = json.loads(line)
                if told["event"] == "ready":
                    self.address = told["address"]
                    await self.until(lambda: self._metrics_address)
                    return
        raise ServerError("the server did not start:\n" + "".join(self._log))

    def calls_of(self, client_id: str) -> list[dict]:
        """The lines of the calls that had this `x-request-id`."""
        return [call for call in self.calls if call.get("client_id") == client_id]

    async def logged(self, client_id: str, count: int) -> list[dict]:
        """Wait until so many calls with this `x-request-id` have ended, and return their lines."""
        await self.until(lambda: len(self.calls_of(client_id)) >= count)
        return self.calls_of(client_id)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a line of the log has made a condition true.

        Raises:
            ServerError: none did in time.
        """
        try:
            async with asyncio.timeout(BOUND_SECONDS), self._news:
                await self._news.wait_for(condition)
        except TimeoutError:
            raise ServerError(
                f"the log did not get there; its last call: {self.calls[-1:]}"
            ) from None

    async def metrics(self) -> dict[str, float]:
        """The numbers of the metrics without labels."""
        async with (
            aiohttp.ClientSession(raise_for_status=True) as session,
            session.get(f"http://{self._metrics_address}/metrics") as response,
        ):
            lines = (await response.text()).splitlines()
        numbers = [line.split() for line in lines if line[0] != "#" and "{" not in line]
        return {name.removeprefix("headrace_"): float(value) for name, value in numbers}

    async def num_opened(self) -> int:
        """The number of sequences ever opened in the engine."""
        return int((await self.metrics())["sequences_opened_total"])

    async def balance(self) -> dict[str, float]:
        """Wait until nothing is open in the engine, and return the last numbers."""
        return await self.metrics_when(is_balanced)

    async def metrics_when(self, condition: Callable[[dict[str, float]], bool]) -> dict[str, float]:
        """Ask for the metrics until they fulfil a condition, and return them."""
        numbers: dict[str, float] = {}
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                while not condition(numbers := await self.metrics()):  # noqa: ASYNC110  # no event
                    await asyncio.sleep(STEP_SECONDS)
        except TimeoutError:
            raise ServerError(f"the server's metrics never got there: {numbers}") from None
        return numbers

    async def status(self) -> int:
        """Wait for the end of the process and return its exit status."""
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.process.wait()


def is_balanced(numbers: dict[str, float]) -> bool:
    """Whether all that was opened is closed, and all memory is free."""
    return (
        numbers["sequences_opened_total"] == numbers["sequences_closed_total"]
        and numbers["sequences_running"] == numbers["sequences_waiting"] == 0
        and numbers["kv_blocks_free"] == numbers["kv_blocks"]
    )


@asynccontextmanager
async def server_process(*flags: object) -> AsyncIterator[ServerProcess]:
    """Start a server with these flags beside `FLAGS`, and kill it on leaving if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "headrace_server", *FLAGS, *map(str, flags)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")},
    )
    server = ServerProcess(process)
    log = asyncio.create_task(server.follow_log())
    try:
        await server.wait_until_ready()
        yield server
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await log


def new_id(label: str) -> str:
    """An `x-request-id` that is used once."""
    return f"{label}-{uuid.uuid4().hex[:8]}"
