"""GET /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from headrace_gateway.metrics.registry import CONTENT_TYPE

if TYPE_CHECKING:
    from headrace_gateway.metrics.registry import Metrics


class MetricsPage:
    """Tells Prometheus what this gateway has counted.

    Args:
        metrics: of the gateway.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    async def show_metrics(self, request: web.Request) -> web.Response:
        """Return all metrics as of now."""
        return web.Response(body=self._metrics.text(), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})
