"""The composition root: builds the gateway, runs it, and lets it finish when it must stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from headrace_gateway.api_keys import ApiKeyError, ApiKeys
from headrace_gateway.application import build_app
from headrace_gateway.certificates import CertificateError
from headrace_gateway.connection import Connection
from headrace_gateway.gateway import Gateway
from headrace_gateway.handshakes import Handshakes
from headrace_gateway.https import Https
from headrace_gateway.in_flight import InFlight
from headrace_gateway.metrics.registry import Metrics
from headrace_gateway.stop_signals import StopSignals
from headrace_gateway.telemetry import log_event
from headrace_gateway.upstream import Upstream
from headrace_gateway.upstream_channel import UpstreamChannels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from headrace_gateway.config import GatewayConfig

LAST_WORDS_SECONDS = 2.0
"""How long responses may take to leave once their generations are over."""

_BACKLOG = 1024

_log = logging.getLogger(__name__)


class StartError(Exception):
    """The gateway cannot start: one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that takes connections.

    Args:
        address: where, as ``host:port`` with the port that was chosen.
        in_flight: the generations under way, to drain before it is closed.
    """

    address: str
    in_flight: InFlight


class Listening(msgspec.Struct, frozen=True, tag_field="event", tag="listening"):
    """The line on the standard output that says that the port is open.

    Args:
        address: as ``host:port``.
        url: of the gateway.
        page: that of the chat page; None without one.
    """

    address: str
    url: str
    page: str | None


@asynccontextmanager
async def running(config: GatewayConfig) -> AsyncIterator[RunningGateway]:
    """Run a gateway for the time of the body; leaving ends what is still under way.

    Raises:
        StartError: the address cannot be listened on, or a file of keys or certificates cannot
            be used.
    """
    async with AsyncExitStack() as stack:
        keys, https, channels = _read_files(config)
        metrics = Metrics()
        upstream = await stack.enter_async_context(Upstream(channels, metrics.generations))
        gateway = Gateway(config, upstream, InFlight(), metrics)
        runner = web.AppRunner(
            build_app(gateway, keys),
            # A caller who leaves cancels the handler, and the handler the call.
            handler_cancellation=True,
            shutdown_timeout=LAST_WORDS_SECONDS,
        )
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        arrive = _way_in(config, runner, https, stack)
        server = await _listen(config, arrive)
        stack.callback(server.close)
        yield RunningGateway(_address(server), gateway.in_flight)


async def serve(config: GatewayConfig) -> None:
    """Serve until a signal, then let running requests finish.

    Raises:
        StartError: see `running`.
    """
    stop = asyncio.Event()
    _handle_signals(stop)
    async with running(config) as gateway:
        _announce(gateway.address, config)
        await stop.wait()
        log_event(_log, logging.INFO, "draining", requests=gateway.in_flight.num_live)
        await gateway.in_flight.drain(config.shutdown_timeout_seconds)
    log_event(_log, logging.INFO, "stopped")


def _read_files(config: GatewayConfig) -> tuple[ApiKeys | None, Https | None, UpstreamChannels]:
    try:
        keys = ApiKeys(config.api_keys, config.api_key_file) if config.has_keys else None
        https = None if config.tls is None else Https(config.tls)
        return keys, https, UpstreamChannels(config.upstream, config.upstream_tls)
    except ApiKeyError as error:
        raise StartError(f"{error}.") from error
    except CertificateError as error:
        raise StartError(str(error)) from error


def _way_in(
    config: GatewayConfig, runner: web.AppRunner, https: Https | None, stack: AsyncExitStack
) -> Callable[[], asyncio.Protocol]:
    """Return what makes the protocol of each connection to the port."""
    server = runner.server
    assert server is not None

    def connect() -> Connection:
        return Connection(server, config)

    if https is None:
        return connect
    handshakes = Handshakes(https.context, connect, config.max_connections)
    stack.callback(handshakes.close)
    return handshakes.arrive


async def _listen(config: GatewayConfig, arrive: Callable[[], asyncio.Protocol]) -> asyncio.Server:
    try:
        return await asyncio.get_running_loop().create_server(
            arrive, config.host, config.port, backlog=_BACKLOG
        )
    except OSError as error:
        # uvloop puts the address into the text; the number is below 0 for an unknown name.
        number = error.errno or 0
        reason = os.strerror(number) if number > 0 else error.strerror
        raise StartError(
            f"Cannot listen on {config.host} port {config.port}: {reason}. "
            "Choose another with --host or --port."
        ) from error


def _announce(address: str, config: GatewayConfig) -> None:
    """Tell people and programs where the gateway listens."""
    log_event(_log, logging.INFO, "listening", address=address)
    url = f"{'https' if config.tls else 'http'}://{address}"
    line = Listening(address, url, None if config.no_ui else f"{url}/")
    print(msgspec.json.encode(line).decode(), flush=True)  # noqa: T201 - it is for programs
    if not _is_loopback(config.host):
        for risk in _risks(config):
            log_event(_log, logging.WARNING, risk, address=address)


def _risks(config: GatewayConfig) -> list[str]:
    """What somebody who opens the port to a network should know."""
    risks = []
    if not config.has_keys and config.ssl_ca_certs is None:
        risks.append(
            "open to the network: whoever reaches the port may use it, unless the server asks for "
            "keys; give one of them keys"
        )
    if config.tls is None:
        risks.append("not encrypted: whoever is on the way can read texts and keys; give it TLS")
    return risks


def _is_loopback(host: str) -> bool:
    """Tell whether only programs of this machine reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(server: asyncio.Server) -> str:
    host, port = server.sockets[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _handle_signals(stop: asyncio.Event) -> None:
    signals = StopSignals()

    def on_signal(number: int) -> None:
        if signals.take(number):
            os._exit(128 + number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
        loop.add_signal_handler(number, on_signal, number)
