"""Counts every request that reaches a handler, and those that none takes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from aiohttp import web

from headrace_gateway.exchange import CLIENT_CLOSED_REQUEST

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace_gateway.metrics.requests import RequestMetrics

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_NO_ROUTE = "none"
"""The route of what nobody takes: its path is the caller's, and there is no end of those."""


class RequestMeter:
    """Stands around the boundary, so that it sees the status that the client sees.

    Args:
        metrics: count the requests.
    """

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics

    def install(self, app: web.Application) -> None:
        """Put it around what comes after it."""
        app.middlewares.append(self._handle)

    @web.middleware
    async def _handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        started, status = time.monotonic(), 500
        with self._metrics.in_flight():
            try:
                response = await handler(request)
                status = response.status
            except web.HTTPException as error:
                status = error.status
                raise
            except asyncio.CancelledError:
                status = CLIENT_CLOSED_REQUEST
                raise
            finally:
                self._metrics.end(_route(request), status, time.monotonic() - started)
        return response


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return _NO_ROUTE if resource is None else resource.canonical
