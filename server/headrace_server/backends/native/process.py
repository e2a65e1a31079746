"""One engine process: spawned with its socket, killed and reaped on leaving."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from typing import TYPE_CHECKING

from headrace_server.backends.native.link import EngineLink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_STDERR = 2


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
    """Start an engine; on leaving it is dead and reaped.

    It is a fresh interpreter, not a fork: threads and gRPC of this process stay here.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        link = await EngineLink.open(ours)
        try:
            descriptor = theirs.fileno()
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "headrace_server.engine"),
                *("--fd", str(descriptor), "--epoch", str(epoch)),
                pass_fds=(descriptor,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=_STDERR,  # what a library prints must not mix with our own output
            )
            theirs.close()  # so that the engine's end is the only one, and its end our EOF
            engine = EngineProcess(process, link)
            try:
                yield engine
            finally:
                engine.kill()
                await process.wait()
        finally:
            await link.close()
