"""Serving until a signal: what the process tells while it runs, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import sys
from ipaddress import ip_address
from typing import TYPE_CHECKING

from headrace.v1.model_pb2 import Capability
from headrace_server.app import open_server
from headrace_server.stop_signals import StopSignals
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.app import Server
    from headrace_server.backends.interface import BackendStatus
    from headrace_server.config import Config

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)

_log = logging.getLogger("headrace_server")


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Raises:
        StartError: see `open_server`.
    """
    with _stop_signal() as stop_requested:
        async with open_server(config) as server, asyncio.TaskGroup() as tasks:
            news = tasks.create_task(_tell_news(server, config))
            await stop_requested.wait()
            news.cancel()
            await server.drain(config.shutdown)
    log_event(_log, logging.INFO, "stopped")


@contextlib.contextmanager
def _stop_signal() -> Iterator[asyncio.Event]:
    """Set an event at the first signal; the same one once more ends the process at once."""
    requested, signals = asyncio.Event(), StopSignals()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        if signals.take(number):
            # The engine ends with this process.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        requested.set()

    for number in _STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield requested
    finally:
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)


async def _tell_news(server: Server, config: Config) -> None:
    """Tell people and programs how the server is doing."""
    socket = config.rpc.unix_socket
    log_event(
        _log,
        logging.INFO,
        "listening",
        address=server.address,
        unix_socket=None if socket is None else str(socket),
        tls=config.rpc.tls is not None or None,
        keys=config.access.has_keys or None,
    )
    _tell_program("listening", address=server.address)
    if server.metrics_address is not None:
        log_event(_log, logging.INFO, "serving metrics", address=server.metrics_address)
    if not _is_loopback(config.rpc.host):
        for event in _risks(config):
            log_event(_log, logging.WARNING, event, address=server.address)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_tell_engine_news(server))
        await server.availability.wait_for_change(seen=False)
        _tell_ready(server, config)


def _tell_ready(server: Server, config: Config) -> None:
    model = server.model_service.describe()
    kv_cache_tokens = server.backend.load.num_total_blocks * config.engine.block_size
    log_event(
        _log,
        logging.INFO,
        "ready",
        address=server.address,
        model=config.served_names[0],
        aliases=",".join(model.aliases) or None,
        context_length=model.context_length,
        kv_cache_tokens=kv_cache_tokens,
    )
    _tell_program(
        "ready",
        address=server.address,
        model=model.name,
        aliases=list(model.aliases),
        context_length=model.context_length,
        capabilities=[
            Capability.Name(number).removeprefix("CAPABILITY_").lower()
            for number in model.capabilities
        ],
        kv_cache_tokens=kv_cache_tokens,
    )
    _tell_person(
        f"Serving {' or '.join(config.served_names)} with {model.context_length} tokens of "
        f"context;\nthe KV cache holds {kv_cache_tokens} tokens of all running requests.",
        config,
        server.address,
    )


async def _tell_engine_news(server: Server) -> None:
    """Log each state of the engine and each phase of loading, but not each per cent of it."""
    told = ""
    status: BackendStatus = server.backend.status
    while True:
        phase = f"{status.state.value}: {status.detail.partition(',')[0]}"
        if phase != told:
            told = phase
            log_event(_log, logging.INFO, "engine", state=status.state.value, detail=status.detail)
        _tell_program("engine", state=status.state.value, detail=status.detail)
        status = await server.backend.wait_for_status_change(status)


def _risks(config: Config) -> list[str]:
    """What somebody who opens the port to a network should know."""
    risks = []
    if not config.access.has_keys and not config.rpc.asks_for_certificates:
        risks.append("open to the network: whoever reaches the port may use it; give it keys")
    if config.rpc.tls is None:
        risks.append("not encrypted: whoever is on the way can read texts and keys; give it TLS")
    return risks


def _is_loopback(host: str) -> bool:
    """Tell whether only programs of this machine reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _tell_program(event: str, **fields: str | int | list[str]) -> None:
    """Write a line of JSON for the program that started this one; a person has the log."""
    if sys.stdout.isatty():
        return
    # A pipe that is ready takes 4 KiB without blocking; a line that nobody reads is dropped.
    if select.select([], [sys.stdout], [], 0)[1]:
        with contextlib.suppress(OSError):
            os.write(sys.stdout.fileno(), json.dumps({"event": event, **fields}).encode() + b"\n")


def _tell_person(facts: str, config: Config, address: str) -> None:
    """Write what to do next for somebody at a terminal, unless a program started this one."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        sys.stderr.write(
            f"\n{facts}\nTry it in another terminal:\n\n"
            f"  grpcurl {' '.join(_grpcurl_options(config))} "
            '-d \'{"text":"Once upon a time","stopping":{"max_output_tokens":60}}\' '
            f"{address} headrace.v1.InferenceService/Generate\n\n"
        )


def _grpcurl_options(config: Config) -> list[str]:
    options = ["-plaintext"] if config.rpc.tls is None else ["-cacert AUTHORITY.pem"]
    if config.rpc.asks_for_certificates:
        options.append("-cert CLIENT.pem -key CLIENT-KEY.pem")
    if config.access.has_keys:
        options.append('-H "authorization: Bearer $HEADRACE_API_KEY"')
    return options
