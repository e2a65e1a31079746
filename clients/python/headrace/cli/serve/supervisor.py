"""Runs the server and the gateway: starts them, tells how they are, and ends them together."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.async_client import AsyncClient
from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.serve.children import Child, ChildEndedError
from headrace.cli.serve.console import Progress, reachable, welcome
from headrace.cli.serve.flags import Program

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

# The programs exit with these after a sentence of their own.
_SPOKEN_CODES = (ExitCode.FAILURE, ExitCode.USAGE)


SAME_WISH_SECONDS = 0.5
"""How long another signal is the same wish: ``timeout`` of GNU sends each of its signals to the
program and then to its group, and so to the program twice.
"""


class StopRequestedError(Exception):
    """Somebody wants all of it to end."""


class StopSignals:
    """The signals to stop: the first lets answers finish, the second does not wait.

    Args:
        now: the time, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self._now = now
        self._first_time = 0.0

    def take(self) -> None:
        """Take a signal."""
        if not self.first.is_set():
            self._first_time = self._now()
            self.first.set()
        elif self._now() - self._first_time > SAME_WISH_SECONDS:
            self.second.set()

    async def watch(self) -> None:
        """Wait for the first one.

        Raises:
            StopRequestedError: always, in the end.
        """
        await self.first.wait()
        raise StopRequestedError


async def supervise(server_arguments: Sequence[str], gateway_arguments: Sequence[str]) -> int:
    """Run both programs until a signal, or until one of them ends and the other is stopped.

    Returns:
        The exit status.

    Raises:
        CommandError: one ended without having said why.
    """
    ended: ChildEndedError | None = None
    with _stop_signals() as signals:
        async with _children(signals.second) as children:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(signals.watch())
                    pair = _Pair(children, tasks)
                    await pair.start(server_arguments, gateway_arguments)
            except* StopRequestedError:
                _say("Stopping when the running answers are complete; Ctrl-C again stops now.")
            except* ChildEndedError as group:
                ended = _first(group)
    if ended is None:
        return ExitCode.DONE
    if ended.returncode in _SPOKEN_CODES:
        return ended.returncode
    raise CommandError(_how_it_ended(ended))


@asynccontextmanager
async def _children(hurry: asyncio.Event) -> AsyncIterator[list[Child]]:
    """Hold the programs that the body adds; they are stopped together when it is left."""
    children: list[Child] = []
    try:
        yield children
    finally:
        # At once: both refuse what is new, and share one time for what runs. The server
        # completes the running answers of the gateway, which are calls to it like others.
        async with asyncio.TaskGroup() as stops:
            for child in children:
                stops.create_task(child.stop(hurry))


@dataclass(frozen=True, slots=True)
class _Pair:
    """The two programs.

    Args:
        children: the programs that run, to be stopped.
        tasks: watch them.
    """

    children: list[Child]
    tasks: asyncio.TaskGroup

    async def start(
        self, server_arguments: Sequence[str], gateway_arguments: Sequence[str]
    ) -> None:
        """Start both, and tell when and how they can be used."""
        progress = Progress()
        try:
            progress.show("starting the server")
            server = await self._start(Program.SERVER, server_arguments)
            grpc_address = (await _wait_for(server, "listening", progress))["address"]
            upstream = f"--upstream={reachable(grpc_address)}"
            gateway = await self._start(Program.GATEWAY, [*gateway_arguments, upstream])
            listening = await _wait_for(gateway, "listening", progress)
            ready = await _wait_for(server, "ready", progress)
            async with AsyncClient(reachable(grpc_address)) as client:
                model = await client.get_model()
        finally:
            progress.clear()
        with suppress(BrokenPipeError):  # nobody reads it; the service goes on
            words = welcome(
                model,
                listening["address"],
                grpc_address,
                num_kv_tokens=ready["kv_cache_tokens"],
                has_page=listening["page"] is not None,
            )
            print(words, flush=True)

    async def _start(self, program: Program, arguments: Sequence[str]) -> Child:
        child = await Child.start(program, arguments)
        self.children.append(child)
        self.tasks.create_task(child.watch())
        return child


async def _wait_for(child: Child, event: str, progress: Progress) -> dict[str, Any]:
    """Wait for an event of a program, and show how loading goes in the meantime."""
    while (news := await child.next_news())["event"] != event:
        if news["event"] == "engine" and news["state"] == "loading":
            progress.show(news["detail"])
    return news


@contextmanager
def _stop_signals() -> Iterator[StopSignals]:
    signals, loop = StopSignals(), asyncio.get_running_loop()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup does
        numbers.append(signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, signals.take)
    try:
        yield signals
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _first(group: BaseExceptionGroup[ChildEndedError]) -> ChildEndedError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _how_it_ended(ended: ChildEndedError) -> str:
    if ended.returncode < 0:
        how = f"was killed by {_name_of_signal(-ended.returncode)}"
    else:
        how = f"ended with status {ended.returncode}"
    noun = ended.program.name.lower()
    other = next(program for program in Program if program is not ended.program).name.lower()
    return f"The {noun} {how}, so the {other} was stopped; start again with `headrace serve`."


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals have no names of their own
        return f"signal {number}"


def _say(sentence: str) -> None:
    print(f"headrace: {sentence}", file=sys.stderr, flush=True)
