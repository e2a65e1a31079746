"""The metrics of HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from headrace_gateway.metrics import table

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from prometheus_client import CollectorRegistry


class RequestMetrics:
    """Counts the requests of all routes.

    Args:
        registry: takes the metrics in.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        total, seconds, live = table.REQUESTS, table.REQUEST_SECONDS, table.REQUESTS_IN_FLIGHT
        self._total = Counter(total.name, total.help, total.labels, registry=registry)
        self._seconds = Histogram(
            seconds.name, seconds.help, seconds.labels, registry=registry, buckets=seconds.buckets
        )
        self._live = Gauge(live.name, live.help, registry=registry)

    def in_flight(self) -> AbstractContextManager[object]:
        """Return what counts a request as being handled for the time of its body."""
        return self._live.track_inprogress()

    def end(self, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended.

        Args:
            route: the path with its parameters in braces.
            status: the one of HTTP.
            seconds: how long it took.
        """
        self._total.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
