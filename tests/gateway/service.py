"""A server with its simulated engine and a gateway in front of it, as processes of their own."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_SECONDS = 30.0
MODEL = "simulated"


@dataclass
class Process:
    """A process that tells on its standard output, in JSON, what happens to it."""

    popen: subprocess.Popen
    log: Path

    def wait_for_event(self, event: str) -> dict:
        """Read lines until one is of this event."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            ready, _, _ = select.select([self.popen.stdout], [], [], deadline - time.monotonic())
            line = self.popen.stdout.readline() if ready else b""
            if not line:
                raise AssertionError(f"no {event}; its log says:\n{self.log.read_text()}")
            if (fields := json.loads(line))["event"] == event:
                return fields

    def log_lines(self) -> list[dict]:
        """Return what it has logged so far."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line[:1] == "{"]


@dataclass
class Service:
    """A service at work; `url` is that of the gateway."""

    server: Process
    gateway: Process
    url: str
    grpc_address: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextmanager
def running(directory: Path, module: str, *flags: str) -> Iterator[Process]:
    """Run a module until the body ends."""
    log = directory / f"{module}.log"
    command = [sys.executable, "-m", module, "--port", "0", "--log-format", "json", *flags]
    with log.open("wb") as stderr:
        popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, bufsize=0)
    with popen:
        try:
            yield Process(popen, log)
        finally:
            if popen.poll() is None:
                popen.kill()


@contextmanager
def serving(
    directory: Path, server_flags: tuple[str, ...] = (), gateway_flags: tuple[str, ...] = ()
) -> Iterator[Service]:
    """Run a service until the body ends."""
    with running(directory, "headrace_server", "--backend", "simulated", *server_flags) as server:
        address = server.wait_for_event("ready")["address"]
        with running(
            directory, "headrace_gateway", "--upstream", address, *gateway_flags
        ) as gateway:
            url = gateway.wait_for_event("listening")["url"]
            yield Service(server, gateway, url, address)
