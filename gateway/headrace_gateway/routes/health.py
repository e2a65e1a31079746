"""GET /health, /readyz, /ping, /livez, /load and /version, for people and orchestrators."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from headrace_gateway import errors
from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.health_response import Load, Status, Version
from headrace_gateway.routes.body import json_response
from headrace_gateway.upstream import CallContext

if TYPE_CHECKING:
    from aiohttp import web

    from headrace_gateway.gateway import Gateway


class Health:
    """Tells how the gateway and the server behind it are."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._version = Version(version("headrace"))

    async def readiness(self, request: web.Request) -> web.Response:
        """Return 200 when requests would be answered; else 503 with what is going on."""
        if self._gateway.in_flight.is_draining:
            raise errors.draining()
        exchange = exchange_of(request)
        context = CallContext(exchange.request_id, exchange.caller)
        await self._gateway.upstream.check_readiness(context)
        return json_response(Status())

    async def liveness(self, request: web.Request) -> web.Response:
        """Return 200: this process answers."""
        return json_response(Status())

    async def show_load(self, request: web.Request) -> web.Response:
        """Return how many generations are under way in this gateway."""
        return json_response(Load(self._gateway.in_flight.num_live))

    async def show_version(self, request: web.Request) -> web.Response:
        """Return the version."""
        return json_response(self._version)
