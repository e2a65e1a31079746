"""The page on the API at /docs, which shows /openapi.json by Swagger UI."""

from __future__ import annotations

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
