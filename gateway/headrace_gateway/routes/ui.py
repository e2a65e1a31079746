"""The chat page at / and its files below /ui, read once and served from memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.helpers import ETag

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

PAGE = "index.html"

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

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Kept, but never shown without asking: a new version is a new page at once.
    "Cache-Control": "no-cache",
}

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as it is served.

    Args:
        body: its bytes.
        content_type: in UTF-8.
        etag: changes with the body.
    """

    body: bytes
    content_type: str
    etag: str


class Ui:
    """Serves the files that are there at the start; a path is only ever looked up among them."""

    def __init__(self) -> None:
        self._files = read_files()

    async def show_page(self, request: web.Request) -> web.Response:
        """Return the page."""
        return _response(request, self._files[PAGE])

    async def get_file(self, request: web.Request) -> web.Response:
        """Return a file of the page."""
        file = self._files.get(request.match_info["path"])
        if file is None:
            raise web.HTTPNotFound
        return _response(request, file)


def read_files() -> Mapping[str, StaticFile]:
    """Return all files of the page by their paths, such as ``scripts/main.js``."""
    return dict(_walk(files("headrace_gateway") / "ui", ""))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        elif content_type := _TYPES.get(f".{path.rpartition('.')[2]}"):
            body = entry.read_bytes()
            yield path, StaticFile(body, content_type, hashlib.sha256(body).hexdigest()[:32])


def _response(request: web.Request, file: StaticFile) -> web.Response:
    known = request.if_none_match or ()
    if any(tag.value in (file.etag, "*") for tag in known):
        response = web.Response(status=304, headers=_HEADERS)
    else:
        response = web.Response(
            body=file.body, content_type=file.content_type, charset="utf-8", headers=_HEADERS
        )
    response.etag = ETag(file.etag)
    return response
