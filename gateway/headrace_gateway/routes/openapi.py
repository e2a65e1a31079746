"""GET /openapi.json."""

from __future__ import annotations

from importlib.metadata import version

import msgspec
from aiohttp import web

from headrace_gateway.openapi.document import openapi_document


class OpenApi:
    """Describes the API to programs."""

    def __init__(self) -> None:
        self._document = msgspec.json.encode(openapi_document(version("headrace")))

    async def show_document(self, request: web.Request) -> web.Response:
        """Return the document."""
        return web.Response(body=self._document, content_type="application/json")
