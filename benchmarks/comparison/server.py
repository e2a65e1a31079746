"""Runs a server for as long as it is measured."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import aiohttp
import psutil

from comparison.memory import process_tree
from comparison.peer import Ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
    from pathlib import Path

    from comparison.peer import Launch, Peer, Sizing

_POLL_SECONDS = 0.05
_STOP_SECONDS = 10.0
_LOG_TAIL_CHARACTERS = 600


class ServerFailedError(Exception):
    """A server ended, or was not ready in time."""


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that answers.

    Args:
        url: of HTTP.
        grpc_address: of gRPC, for Headrace.
        pids: of the programs that were started.
        exec_seconds: when they were started, on the clock of `time.perf_counter`.
        start_seconds: from their start until the server said that it would answer.
    """

    url: str
    grpc_address: str
    pids: tuple[int, ...]
    exec_seconds: float
    start_seconds: float


@asynccontextmanager
async def running(
    peer: Peer, sizing: Sizing, log_file: Path, timeout_seconds: float
) -> AsyncIterator[RunningServer]:
    """Start a server, wait until it is ready, and stop it with all that it started.

    Raises:
        ServerFailedError: it did not become ready; the end of its log says more.
    """
    ports = Ports(http=_free_port(), grpc=_free_port())
    launch = peer.launch(sizing, ports)
    url = f"http://127.0.0.1:{ports.http}"
    with _programs(launch, log_file) as (processes, begin):
        await _wait_until_ready(processes, url + launch.ready_path, log_file, timeout_seconds)
        yield RunningServer(
            url=url,
            grpc_address=f"127.0.0.1:{ports.grpc}",
            pids=tuple(process.pid for process in processes),
            exec_seconds=begin,
            start_seconds=time.perf_counter() - begin,
        )


@contextlib.contextmanager
def _programs(
    launch: Launch, log_file: Path
) -> Iterator[tuple[list[subprocess.Popen[bytes]], float]]:
    processes: list[subprocess.Popen[bytes]] = []
    with log_file.open("ab") as log:
        try:
            begin = time.perf_counter()
            for command in launch.commands:
                process = _start(command, launch.environment, log)
                processes.append(process)  # at once: it is stopped even if the next cannot start
            yield processes, begin
        finally:
            _stop(processes)


def _start(
    command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | environment,
            start_new_session=True,  # Ctrl-C is for the comparison, which stops the server
        )
    except OSError as error:
        raise ServerFailedError(f"{command[0]} could not be started: {error.strerror}") from error


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Ask them to stop, and end with force what is left of them and their children."""
    tree = process_tree(process.pid for process in processes)
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    _, alive = psutil.wait_procs(tree, timeout=_STOP_SECONDS)
    for survivor in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            survivor.kill()
    for process in processes:
        process.wait()


async def _wait_until_ready(
    processes: list[subprocess.Popen[bytes]], url: str, log_file: Path, timeout_seconds: float
) -> None:
    deadline = time.perf_counter() + timeout_seconds
    timeout = aiohttp.ClientTimeout(total=5)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            if any(process.poll() is not None for process in processes):
                raise ServerFailedError(f"it ended while it started: {_tail(log_file)}")
            if time.perf_counter() > deadline:
                raise ServerFailedError(
                    f"it was not ready after {timeout_seconds:.0f} s: {_tail(log_file)}"
                )
            await asyncio.sleep(_POLL_SECONDS)


def _tail(log_file: Path) -> str:
    text = log_file.read_text(encoding="utf-8", errors="replace")
    return " ".join(text[-_LOG_TAIL_CHARACTERS:].split())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
