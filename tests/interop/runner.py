"""The runner of a client in a process of its own, which is asked line by line."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.interop.clients import Client
    from tests.interop.routes import Way

ANSWER_SECONDS = 30.0
LONGEST_LINE_BYTES = 64 * 1024 * 1024
_LAST_WORDS_BYTES = 4000


class RunnerError(AssertionError):
    """A runner did not answer, or not as the contract of runners says."""


class Runner:
    """A runner that waits for lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr = b""
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        """Take what the runner says of itself, so that it never waits for somebody to do so."""
        while piece := await self._process.stderr.read(2**16):
            self._stderr = (self._stderr + piece)[-_LAST_WORDS_BYTES:]

    async def ask(self, line: dict) -> dict:
        """Send a line and return the answer to it.

        Raises:
            RunnerError: there was none in time, or it is not one to this line.
        """
        await self.send(line)
        return await self.answer_to(line)

    async def send(self, line: dict) -> None:
        """Send a line."""
        try:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            await self._process.stdin.drain()
        except OSError:
            raise RunnerError(f"the runner ended{await self._last_words()}") from None

    async def answer_to(self, line: dict) -> dict:
        """Wait for the answer to a line that was sent.

        Raises:
            RunnerError: there was none in time, or it is not one to this line.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer = await self._process.stdout.readline()
        except TimeoutError:
            self._process.kill()
            words = await self._last_words()
            raise RunnerError(f"no answer within {ANSWER_SECONDS:g} s{words}") from None
        if not answer:
            raise RunnerError(f"the runner ended{await self._last_words()}")
        try:
            told = json.loads(answer)
        except ValueError:
            raise RunnerError(f"not a line of JSON: {answer[:200]!r}") from None
        if told.get("id") != line["id"]:
            raise RunnerError(f"an answer to {told.get('id')!r} instead of {line['id']!r}")
        if not ("calls" in told or "unsupported" in told):
            raise RunnerError(f"an answer with neither calls nor unsupported: {answer[:200]!r}")
        return told

    async def end(self) -> int:
        """Close stdin, upon which the runner ends; return its exit status."""
        self._process.stdin.close()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._process.wait()
        except TimeoutError:
            raise RunnerError("the runner did not end at the end of its input") from None

    async def close(self) -> None:
        """Kill the runner if it has not ended."""
        if self._process.returncode is None:
            self._process.kill()
        self._process.stdin.close()
        await self._process.wait()
        await self._listening

    async def _last_words(self) -> str:
        await self._listening
        words = self._stderr.decode(errors="replace").strip()
        return f":\n{words}" if words else ""


@asynccontextmanager
async def running(client: Client, way: Way, *arguments: str) -> AsyncIterator[Runner]:
    """Start the runner of a client, and kill it on leaving if it has not ended."""
    flags = ["--target", way.target, *way.flags, *arguments]
    runner = Runner(await start(client, [*client.command(client.run), *flags]))
    try:
        yield runner
    finally:
        await runner.close()


async def start(
    client: Client, command: list[str], **environment: str
) -> asyncio.subprocess.Process:
    """Start a program of a client in its folder.

    Raises:
        RunnerError: it is not there.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            cwd=client.path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE_BYTES,
            env=own | environment,
        )
    except OSError as error:
        raise RunnerError(str(error)) from None
