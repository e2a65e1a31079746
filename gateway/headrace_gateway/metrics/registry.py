"""The metrics of one gateway, and their text for Prometheus."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from headrace_gateway.metrics.generations import GenerationMetrics
from headrace_gateway.metrics.requests import RequestMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""That of the text."""


class Metrics:
    """All metrics.

    Attributes:
        requests: those of HTTP.
        generations: those of the answers.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = RequestMetrics(self._registry)
        self.generations = GenerationMetrics(self._registry)

    def text(self) -> bytes:
        """Return all of them as of now."""
        return generate_latest(self._registry)
