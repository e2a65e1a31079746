"""One engine process: spawned with its socket, killed and reaped on leaving."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from typing import TYPE_CHECKING

from headrace_server.backends.native.link import EngineLink
from headrace_server.spawn import spawn_child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class EngineProcess:
    """A running engine and the link to it."""

    def __init__(self, process: asyncio.subprocess.Process, link: EngineLink) -> None:
        self._process = process
        self.link = link

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self, timeout_seconds: float) -> str:
        """Wait for the end of the process, kill it at the timeout, and say how it ended."""
        try:
            async with asyncio.timeout(timeout_seconds):
                status = await self._process.wait()
        except TimeoutError:
            self.kill()
            status = await self._process.wait()
        if status < 0:
            return f"the engine was ended by {_name_of_signal(-status)}"
        return f"the engine ended with status {status}"


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals have no names of their own
        return f"signal {number}"


@contextlib.asynccontextmanager
async def start_engine(epoch: int) -> AsyncIterator[EngineProcess]:
    """Start an engine; on leaving it is dead and reaped."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = await EngineLink.open(ours)
        try:
            process = await spawn_child("headrace_server.engine", theirs, "--epoch", str(epoch))
            engine = EngineProcess(process, link)
            try:
                yield engine
            finally:
                engine.kill()
                await process.wait()
        finally:
            await link.close()
