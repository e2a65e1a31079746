"""The application: every route, and which of them ask for no key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from headrace_gateway.boundary import Boundary
from headrace_gateway.cors import CorsPolicy
from headrace_gateway.request_meter import RequestMeter
from headrace_gateway.routes.chat_completions import ChatCompletions
from headrace_gateway.routes.completions import Completions
from headrace_gateway.routes.health import Health
from headrace_gateway.routes.messages import Messages
from headrace_gateway.routes.metrics import MetricsPage
from headrace_gateway.routes.models import Models
from headrace_gateway.routes.openapi import OpenApi
from headrace_gateway.routes.reference import open_reference, redirect
from headrace_gateway.routes.responses import Responses
from headrace_gateway.routes.tokenization import Tokenization
from headrace_gateway.routes.ui import open_ui

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace_gateway.api_keys import ApiKeys
    from headrace_gateway.gateway import Gateway

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PREFIXES = ("/v1", "")


def build_app(gateway: Gateway, keys: ApiKeys | None = None) -> web.Application:
    """Return the application with all routes.

    Args:
        gateway: the parts behind them.
        keys: of the callers that are let in; None lets all in.
    """
    app = web.Application(client_max_size=gateway.config.max_body_bytes)
    RequestMeter(gateway.metrics.requests).install(app)
    boundary = Boundary(CorsPolicy(gateway.config.cors_origins), keys)
    boundary.install(app)
    routes = _Routes(app.router, boundary)
    for prefix in _PREFIXES:
        _add_api(routes, gateway, prefix)
    routes.add(hdrs.METH_GET, "/load", Health(gateway).show_load)
    routes.add(hdrs.METH_GET, "/metrics", MetricsPage(gateway.metrics).show_metrics)
    _add_state(routes, gateway)
    if not gateway.config.no_ui:
        _add_pages(routes)
    return app


class _Routes:
    """Adds routes behind a boundary.

    Args:
        router: of the application.
        boundary: asks for a key on each that is not added as an open one.
    """

    def __init__(self, router: web.UrlDispatcher, boundary: Boundary) -> None:
        self._router = router
        self._boundary = boundary

    def add(self, method: str, path: str, handler: Handler) -> None:
        """Add a route that asks for a key."""
        self._add(method, path, handler)

    def add_open(self, method: str, path: str, handler: Handler) -> None:
        """Add a route that asks for no key; so does no other of its path."""
        self._boundary.open(self._add(method, path, handler))

    def _add(self, method: str, path: str, handler: Handler) -> web.AbstractRoute:
        expect = self._boundary.expect
        if method == hdrs.METH_GET:
            return self._router.add_get(path, handler, expect_handler=expect)
        return self._router.add_route(method, path, handler, expect_handler=expect)


def _add_api(routes: _Routes, gateway: Gateway, prefix: str) -> None:
    models, tokenization = Models(gateway), Tokenization(gateway)
    messages, responses = Messages(gateway), Responses(gateway)
    for method, path, handler in (
        (hdrs.METH_POST, "/chat/completions", ChatCompletions(gateway).create),
        (hdrs.METH_POST, "/completions", Completions(gateway).create),
        (hdrs.METH_POST, "/messages", messages.create),
        (hdrs.METH_POST, "/messages/count_tokens", messages.count_tokens),
        (hdrs.METH_POST, "/responses", responses.create),
        (hdrs.METH_GET, "/responses/{id}", responses.refuse_stored),
        (hdrs.METH_DELETE, "/responses/{id}", responses.refuse_stored),
        (hdrs.METH_POST, "/tokenize", tokenization.tokenize),
        (hdrs.METH_POST, "/detokenize", tokenization.detokenize),
        (hdrs.METH_GET, "/models", models.list_models),
        (hdrs.METH_GET, "/models/{name:.+}", models.get_model),
    ):
        routes.add(method, f"{prefix}{path}", handler)


def _add_state(routes: _Routes, gateway: Gateway) -> None:
    """Add what those who watch over a gateway ask without a key."""
    health = Health(gateway)
    routes.add_open(hdrs.METH_GET, "/health", health.readiness)
    routes.add_open(hdrs.METH_GET, "/readyz", health.readiness)
    routes.add_open(hdrs.METH_GET, "/ping", health.readiness)
    routes.add_open(hdrs.METH_POST, "/ping", health.readiness)
    routes.add_open(hdrs.METH_GET, "/livez", health.liveness)
    routes.add_open(hdrs.METH_GET, "/version", health.show_version)
    document = OpenApi(has_keys=gateway.config.has_keys)
    routes.add_open(hdrs.METH_GET, "/openapi.json", document.show_document)


def _add_pages(routes: _Routes) -> None:
    """Add the pages, in which a person enters the key."""
    ui, reference = open_ui(), open_reference()
    routes.add_open(hdrs.METH_GET, "/", ui.show_page)
    routes.add_open(hdrs.METH_GET, "/ui/{path:.+}", ui.get_file)
    routes.add_open(hdrs.METH_GET, "/docs", reference.show_page)
    routes.add_open(hdrs.METH_GET, "/docs/", redirect)
    routes.add_open(hdrs.METH_GET, "/docs/{path:.+}", reference.get_file)
