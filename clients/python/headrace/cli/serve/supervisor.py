"""Runs the server and the gateway: starts them, tells how they are, and ends them together."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from headrace.cli.errors import ExitCode
from headrace.cli.serve.certificate import read_certificate
from headrace.cli.serve.children import Child, ChildEndedError
from headrace.cli.serve.console import Security, Service, reachable, welcome
from headrace.cli.serve.flags import Program
from headrace.cli.serve.narrator import Narrator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from headrace.cli.serve.flags import Launch
    from headrace.cli.serve.settings import Settings

# The programs exit with these after a sentence of their own.
_SPOKEN_CODES = (ExitCode.FAILURE, ExitCode.USAGE)

_STOPPING = "Stopping when the running answers are complete; Ctrl-C again stops now."

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


async def supervise(server: Launch, gateway: Launch, settings: Settings) -> int:
    """Run both programs until a signal, or until one of them ends and the other is stopped.

    Returns:
        The exit status.
    """
    ended: ChildEndedError | None = None
    narrator = Narrator(settings)
    with _stop_signals() as signals, _way_between(settings) as unix_socket:
        async with _children(signals.second) as children:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(signals.watch())
                    pair = _Pair(children, tasks, narrator, settings)
                    await pair.start(server, gateway, unix_socket)
            except* StopRequestedError:
                narrator.tell("stopping", _STOPPING)
            except* ChildEndedError as group:
                ended = _first(group)
    if ended is None:
        return ExitCode.DONE
    if ended.returncode in _SPOKEN_CODES:
        return ended.returncode
    narrator.tell_error("ended", _how_it_ended(ended))
    return ExitCode.FAILURE


@contextmanager
def _way_between(settings: Settings) -> Iterator[str | None]:
    """Return the socket by which the gateway reaches a server with TLS; None without TLS."""
    if settings.certfile is None:
        yield None
    elif settings.unix_socket is not None:
        yield settings.unix_socket
    else:
        # For this user alone.
        with TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
            yield str(Path(folder) / "grpc.sock")


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
        narrator: tells how loading goes.
        settings: that were given.
    """

    children: list[Child]
    tasks: asyncio.TaskGroup
    narrator: Narrator
    settings: Settings

    async def start(self, server: Launch, gateway: Launch, unix_socket: str | None) -> None:
        """Start both, and tell when and how they can be used."""
        try:
            self.narrator.show_progress("starting the server")
            if unix_socket is not None:
                server = server.adding(f"--unix-socket={unix_socket}")
            server_child = await self._start(server)
            address = (await self._wait_for(server_child, "listening"))["address"]
            upstream = reachable(address) if unix_socket is None else f"unix:{unix_socket}"
            gateway_child = await self._start(gateway.adding(f"--upstream={upstream}"))
            listening = await self._wait_for(gateway_child, "listening")
            ready = await self._wait_for(server_child, "ready")
        finally:
            self.narrator.clear_progress()
        with suppress(BrokenPipeError):  # nobody reads it; the service goes on
            print(welcome(_service(ready, listening), _security(self.settings)), flush=True)

    async def _start(self, launch: Launch) -> Child:
        child = await Child.start(launch)
        self.children.append(child)
        self.tasks.create_task(child.watch())
        return child

    async def _wait_for(self, child: Child, event: str) -> dict[str, Any]:
        """Wait for an event of a program, and show how loading goes in the meantime."""
        while (news := await child.next_news())["event"] != event:
            if news["event"] == "engine" and news["state"] == "loading":
                self.narrator.show_progress(news["detail"])
        return news


def _service(ready: dict[str, Any], listening: dict[str, Any]) -> Service:
    """Return what is served by what the server said at last and the gateway at first."""
    return Service(
        model=ready["model"],
        aliases=tuple(ready["aliases"]),
        context_length=ready["context_length"],
        can_chat="chat" in ready["capabilities"],
        num_kv_tokens=ready["kv_cache_tokens"],
        http_url=listening["url"],
        has_page=listening["page"] is not None,
        grpc_address=ready["address"],
    )


def _security(settings: Settings) -> Security:
    if settings.certfile is None or settings.keyfile is None:
        return Security(settings.has_keys)
    return Security(
        settings.has_keys,
        read_certificate(settings.certfile, settings.keyfile),
        settings.certfile,
        settings.wants_certificates,
    )


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
