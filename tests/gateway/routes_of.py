"""The routes of the application, as it tells them itself."""

from __future__ import annotations

from collections import defaultdict

from headrace_gateway.application import build_app
from headrace_gateway.config import GatewayConfig
from headrace_gateway.gateway import Gateway
from headrace_gateway.in_flight import InFlight
from headrace_gateway.metrics.registry import Metrics
from headrace_gateway.upstream import Upstream
from headrace_gateway.upstream_channel import UpstreamChannels


def routes_of(*, no_ui: bool = True, with_head: bool = False) -> dict[str, set[str]]:
    """Return the methods of each path; a parameter of a path is its name in braces."""
    metrics = Metrics()
    upstream = Upstream(UpstreamChannels("127.0.0.1:1"), metrics.generations)
    gateway = Gateway(GatewayConfig(no_ui=no_ui), upstream, InFlight(), metrics)
    methods = defaultdict(set)
    for route in build_app(gateway).router.routes():
        if with_head or route.method != "HEAD":
            methods[route.resource.canonical].add(route.method)
    return dict(methods)
