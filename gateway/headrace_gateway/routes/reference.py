"""The page on the API at /docs, which shows /openapi.json by Swagger UI."""

from __future__ import annotations

from aiohttp import hdrs, web

from headrace_gateway.routes.static_files import StaticFiles, read_folder

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


def open_reference() -> StaticFiles:
    """Return the page and its files."""
    return StaticFiles(read_folder("reference"), CONTENT_SECURITY_POLICY)


async def redirect(request: web.Request) -> web.Response:
    """Lead from the path with a slash behind it to the page, also below another path."""
    return web.Response(status=308, headers={hdrs.LOCATION: "../docs"})
