"""What the handlers share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace_gateway.large_bodies import LargeBodies

if TYPE_CHECKING:
    from headrace_gateway.config import GatewayConfig
    from headrace_gateway.in_flight import InFlight
    from headrace_gateway.metrics.registry import Metrics
    from headrace_gateway.upstream import Upstream


@dataclass(frozen=True, slots=True)
class Gateway:
    """The parts behind the handlers.

    Args:
        config: the settings.
        upstream: the inference server.
        in_flight: the generations under way.
        metrics: what is told to Prometheus.
        large_bodies: where they are read.
    """

    config: GatewayConfig
    upstream: Upstream
    in_flight: InFlight
    metrics: Metrics
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
