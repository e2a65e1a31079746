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

from headrace_gateway.boundary import Boundary
from headrace_gateway.connection import Connection
from headrace_gateway.cors import CorsPolicy
from headrace_gateway.gateway import Gateway
from headrace_gateway.in_flight import InFlight
from headrace_gateway.metrics.registry import Metrics
from headrace_gateway.request_meter import RequestMeter
from headrace_gateway.routes.chat_completions import ChatCompletions
from headrace_gateway.routes.completions import Completions
from headrace_gateway.routes.health import Health
from headrace_gateway.routes.messages import Messages
from headrace_gateway.routes.metrics import MetricsPage
from headrace_gateway.routes.models import Models
from headrace_gateway.routes.openapi import OpenApi
from headrace_gateway.routes.reference import open_reference
from headrace_gateway.routes.responses import Responses
from headrace_gateway.routes.tokenization import Tokenization
from headrace_gateway.routes.ui import open_ui
from headrace_gateway.stop_signals import StopSignals
from headrace_gateway.telemetry import log_event
from headrace_gateway.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace_gateway.config import GatewayConfig

LAST_WORDS_SECONDS = 2.0
"""How long responses may take to leave once their generations are over."""

_PREFIXES = ("/v1", "")
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


def build_app(gateway: Gateway) -> web.Application:
    """Return the application with all routes."""
    app = web.Application(client_max_size=gateway.config.max_body_bytes)
    RequestMeter(gateway.metrics.requests).install(app)
    Boundary(CorsPolicy(gateway.config.cors_origins)).install(app)
    models, health, tokenization = Models(gateway), Health(gateway), Tokenization(gateway)
    messages, responses = Messages(gateway), Responses(gateway)
    for prefix in _PREFIXES:
        app.router.add_post(f"{prefix}/chat/completions", ChatCompletions(gateway).create)
        app.router.add_post(f"{prefix}/completions", Completions(gateway).create)
        app.router.add_post(f"{prefix}/messages", messages.create)
        app.router.add_post(f"{prefix}/messages/count_tokens", messages.count_tokens)
        app.router.add_post(f"{prefix}/responses", responses.create)
        app.router.add_get(f"{prefix}/responses/{{id}}", responses.refuse_stored)
        app.router.add_delete(f"{prefix}/responses/{{id}}", responses.refuse_stored)
        app.router.add_post(f"{prefix}/tokenize", tokenization.tokenize)
        app.router.add_post(f"{prefix}/detokenize", tokenization.detokenize)
        app.router.add_get(f"{prefix}/models", models.list_models)
        app.router.add_get(f"{prefix}/models/{{name:.+}}", models.get_model)
    app.router.add_get("/health", health.readiness)
    app.router.add_get("/readyz", health.readiness)
    app.router.add_get("/ping", health.readiness)
    app.router.add_post("/ping", health.readiness)
    app.router.add_get("/livez", health.liveness)
    app.router.add_get("/load", health.show_load)
    app.router.add_get("/version", health.show_version)
    app.router.add_get("/metrics", MetricsPage(gateway.metrics).show_metrics)
    app.router.add_get("/openapi.json", OpenApi().show_document)
    if not gateway.config.no_ui:
        ui, reference = open_ui(), open_reference()
        app.router.add_get("/", ui.show_page)
        app.router.add_get("/ui/{path:.+}", ui.get_file)
        app.router.add_get("/docs", reference.show_page)
        app.router.add_get("/docs/{path:.+}", reference.get_file)
    return app


@asynccontextmanager
async def running(config: GatewayConfig) -> AsyncIterator[RunningGateway]:
    """Run a gateway for the time of the body; leaving ends what is still under way.

    Raises:
        StartError: the address cannot be listened on.
    """
    async with AsyncExitStack() as stack:
        metrics = Metrics()
        upstream = await stack.enter_async_context(Upstream(config.upstream, metrics.generations))
        gateway = Gateway(config, upstream, InFlight(), metrics)
        runner = web.AppRunner(
            build_app(gateway),
            # A caller who leaves cancels the handler, and the handler the call.
            handler_cancellation=True,
            shutdown_timeout=LAST_WORDS_SECONDS,
        )
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        server = await _listen(config, runner)
        stack.callback(server.close)
        yield RunningGateway(_address(server), gateway.in_flight)


async def serve(config: GatewayConfig) -> None:
    """Serve until a signal, then let running requests finish.

    Raises:
        StartError: the address cannot be listened on.
    """
    stop = asyncio.Event()
    _handle_signals(stop)
    async with running(config) as gateway:
        _announce(gateway.address, config)
        await stop.wait()
        log_event(_log, logging.INFO, "draining", requests=gateway.in_flight.num_live)
        await gateway.in_flight.drain(config.shutdown_timeout_seconds)
    log_event(_log, logging.INFO, "stopped")


async def _listen(config: GatewayConfig, runner: web.AppRunner) -> asyncio.Server:
    server = runner.server
    assert server is not None
    try:
        return await asyncio.get_running_loop().create_server(
            lambda: Connection(server, config), config.host, config.port, backlog=_BACKLOG
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
    url = f"http://{address}"
    line = Listening(address, url, None if config.no_ui else f"{url}/")
    print(msgspec.json.encode(line).decode(), flush=True)  # noqa: T201 - it is for programs
    if not _is_loopback(config.host):
        log_event(
            _log,
            logging.WARNING,
            "open to the network: whoever reaches the port may use it, without key or encryption",
            address=address,
        )


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
