"""GET /openapi.json."""

from __future__ import annotations

from importlib.metadata import version

import msgspec
from aiohttp import web

from headrace_gateway.openapi.document import openapi_document


class OpenApi:
    """Describes the API to programs.

    Args:
        has_keys: whether the gateway asks for a key.
    """

    def __init__(self, *, has_keys: bool) -> None:
        document = openapi_document(version("headrace"), has_keys=has_keys)
        self._document = msgspec.json.encode(document)

    async def show_document(self, request: web.Request) -> web.Response:
        """Return the document."""
        return web.Response(body=self._document, content_type="application/json")
