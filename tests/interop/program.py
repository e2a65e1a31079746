"""The program of a client, as a person starts it in a shell."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.interop.runner import start

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.interop.clients import Client
    from tests.interop.routes import Way

SECONDS = 30.0


class ProgramError(AssertionError):
    """A program did not get where it should, in time."""


class Program:
    """A program that runs, with what it has written so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._out = b""
        self._err = b""
        self._reading = asyncio.create_task(self._read_stderr())

    @property
    def stdout(self) -> str:
        return self._out.decode(errors="backslashreplace")

    @property
    def stderr(self) -> str:
        return self._err.decode(errors="backslashreplace")

    async def _read_stderr(self) -> None:
        self._err = await self._process.stderr.read()

    async def first_piece(self) -> None:
        """Wait until it has written something.

        Raises:
            ProgramError: it wrote nothing.
        """
        await self._in_time(self._read_some())
        if not self._out:
            await self.end()
            raise ProgramError(f"it ended without a word on stdout:\n{self.stderr}")

    async def _read_some(self) -> bool:
        piece = await self._process.stdout.read(2**16)
        self._out += piece
        return bool(piece)

    def interrupt(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    async def end(self) -> int:
        """Read to the end and return the exit status."""

        async def read() -> int:
            while await self._read_some():
                pass
            await self._reading
            return await self._process.wait()

        return await self._in_time(read())

    async def _in_time(self, waiting):
        try:
            async with asyncio.timeout(SECONDS):
                return await waiting
        except TimeoutError:
            raise ProgramError(f"it did not get on within {SECONDS:g} s") from None

    async def close(self) -> None:
        """Kill the program if it still runs."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._reading


@asynccontextmanager
async def started(
    client: Client, way: Way, *arguments: object, **environment: str
) -> AsyncIterator[Program]:
    """Start the program of a client."""
    command = [*client.command(client.cli), "--target", way.target, *way.flags]
    process = await start(client, [*command, *map(str, arguments)], **environment)
    process.stdin.close()
    program = Program(process)
    try:
        yield program
    finally:
        await program.close()
