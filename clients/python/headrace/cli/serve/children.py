"""The programs that `headrace serve` starts: their news, their end, and that they do end."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.cli.serve.flags import Launch, Program

_PR_SET_PDEATHSIG = 1

# Once the service is up nobody reads the news, and each restart of an engine makes some more.
_MAX_UNREAD_NEWS = 1000


class ChildEndedError(Exception):
    """A program ended by itself.

    Args:
        program: which.
        returncode: as of `subprocess`: negative for a signal.
    """

    def __init__(self, program: Program, returncode: int) -> None:
        super().__init__(f"{program.value} ended with {returncode}")
        self.program = program
        self.returncode = returncode


class Child:
    """A running program. On Linux it does not outlive this process.

    Args:
        program: which.
        process: just started.
    """

    def __init__(self, program: Program, process: asyncio.subprocess.Process) -> None:
        self._program = program
        self._process = process
        self._news: asyncio.Queue[dict[str, Any]] = asyncio.Queue(_MAX_UNREAD_NEWS)

    @classmethod
    async def start(cls, launch: Launch) -> Self:
        """Start a program."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            launch.program.value,
            *launch.arguments,
            env=launch.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            # Ctrl-C goes to this process alone, which tells the programs.
            process_group=0,
            preexec_fn=_dying_with_parent(),
        )
        return cls(launch.program, process)

    async def watch(self) -> None:
        """Take the news until the program ends.

        Raises:
            ChildEndedError: always, in the end.
        """
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if line.startswith(b'{"event"'):
                if self._news.full():
                    self._news.get_nowait()
                self._news.put_nowait(json.loads(line))
            else:  # a library of the program wrote to stdout
                sys.stderr.write(line.decode(errors="replace"))
        raise ChildEndedError(self._program, await self._process.wait())

    async def next_news(self) -> dict[str, Any]:
        """Wait for the next line of news."""
        return await self._news.get()

    async def stop(self, hurry: asyncio.Event) -> None:
        """Let the program finish what it is doing and end; kill it when `hurry` is set."""
        if self._process.returncode is None:
            # Not SIGTERM: a service manager may have sent that to all processes at once, and
            # the same signal again would mean not to wait.
            self._process.send_signal(signal.SIGUSR1)
        ended = asyncio.create_task(self._process.wait())
        hurried = asyncio.create_task(hurry.wait())
        await asyncio.wait({ended, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not ended.done():
            with suppress(ProcessLookupError):  # it ended just now
                os.killpg(self._process.pid, signal.SIGKILL)
        await ended


def _dying_with_parent() -> Callable[[], None] | None:
    """Return what a new process does so that it is killed when this one is."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def die_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the call
            os.kill(os.getpid(), signal.SIGKILL)

    return die_with_parent
