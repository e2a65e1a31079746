"""The chat page at / and its files below /ui."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.routes.static_files import StaticFiles, read_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace_gateway.routes.static_files import StaticFile

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
        # Markup that did not pass the cleaner is refused by the browser itself.
        "require-trusted-types-for 'script'",
        "trusted-types dompurify",
    )
)


def open_ui() -> StaticFiles:
    """Return the page and its files."""
    return StaticFiles(read_files(), CONTENT_SECURITY_POLICY)


def read_files() -> Mapping[str, StaticFile]:
    """Return all files of the page by their paths, such as ``scripts/main.js``."""
    return read_folder("ui")
