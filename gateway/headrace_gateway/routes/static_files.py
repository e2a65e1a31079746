"""A page and its files, read once and served from memory."""

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

_HEADERS = {
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


class StaticFiles:
    """Serves the files that are there at the start; a path is only ever looked up among them.

    Args:
        files: by their paths; one is the page.
        content_security_policy: what a browser may do with them.
    """

    def __init__(self, files: Mapping[str, StaticFile], content_security_policy: str) -> None:
        self._files = files
        self._headers = {"Content-Security-Policy": content_security_policy, **_HEADERS}

    async def show_page(self, request: web.Request) -> web.Response:
        """Return the page."""
        return self._response(request, self._files[PAGE])

    async def get_file(self, request: web.Request) -> web.Response:
        """Return a file of the page."""
        file = self._files.get(request.match_info["path"])
        if file is None:
            raise web.HTTPNotFound
        return self._response(request, file)

    def _response(self, request: web.Request, file: StaticFile) -> web.Response:
        known = request.if_none_match or ()
        if any(tag.value in (file.etag, "*") for tag in known):
            response = web.Response(status=304, headers=self._headers)
        else:
            response = web.Response(
                body=file.body,
                content_type=file.content_type,
                charset="utf-8",
                headers=self._headers,
            )
        response.etag = ETag(file.etag)
        return response


def read_folder(name: str) -> Mapping[str, StaticFile]:
    """Return all files of a folder of this package by their paths, such as ``scripts/main.js``."""
    return dict(_walk(files("headrace_gateway") / name, ""))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        elif content_type := _TYPES.get(f".{path.rpartition('.')[2]}"):
            body = entry.read_bytes()
            yield path, StaticFile(body, content_type, hashlib.sha256(body).hexdigest()[:32])
