"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.openai.model_response import model, model_list
from headrace_gateway.routes.body import json_response
from headrace_gateway.routes.call_context import call_context

if TYPE_CHECKING:
    from aiohttp import web

    from headrace_gateway.gateway import Gateway


class Models:
    """Tells what is served."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def list_models(self, request: web.Request) -> web.Response:
        """Return every name that requests may use."""
        context = call_context(request, self._gateway.config)
        return json_response(model_list(await self._gateway.upstream.list_models(context)))

    async def get_model(self, request: web.Request) -> web.Response:
        """Return one name; it may hold slashes."""
        name = request.match_info["name"]
        context = call_context(request, self._gateway.config)
        return json_response(model(name, await self._gateway.upstream.get_model(name, context)))
