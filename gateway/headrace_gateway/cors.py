"""Which web pages may use the API from a browser; pure."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_AGE_SECONDS = 600
"""How long a browser may remember a preflight: changes of the setting show soon."""

_METHODS = "GET, POST, OPTIONS"
_EXPOSED = "request-id, x-request-id, openai-processing-ms, retry-after, retry-after-ms"


class CorsPolicy:
    """Decides by the Origin header, which browsers send and pages cannot forge.

    Args:
        origins: origins, ``localhost`` for every page of this machine, ``*`` for every
            page there is; anything else allows nothing.
    """

    def __init__(self, origins: tuple[str, ...]) -> None:
        self._allows_all = "*" in origins
        self._allows_local = "localhost" in origins
        self._listed = frozenset(origin for origin in origins if "://" in origin)

    def allows(self, origin: str) -> bool:
        """Tell whether a page of this origin may use the API."""
        if self._allows_all or origin in self._listed:
            return True
        return self._allows_local and _is_local(origin)

    def response_headers(self, origin: str | None) -> dict[str, str]:
        """Return the headers of every response to a request with this origin."""
        headers = {"Vary": "Origin"}
        if origin is not None and self.allows(origin):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = _EXPOSED
        return headers

    def preflight_headers(self, request_headers: Mapping[str, str]) -> dict[str, str]:
        """Return the further headers of the response to a preflight."""
        origin = request_headers.get("Origin")
        if origin is None or not self.allows(origin):
            return {}
        asked = request_headers.get("Access-Control-Request-Headers", "")
        return {
            "Access-Control-Allow-Methods": _METHODS,
            "Access-Control-Allow-Headers": asked,
            "Access-Control-Max-Age": str(MAX_AGE_SECONDS),
        }


def is_own_page(origin: str, host: str) -> bool:
    """Tell whether a page came from the very address that it asks.

    A name does not count, but for localhost: its owner can make it point at this machine.

    Args:
        origin: of the page.
        host: that the request is for, with its port, as in the header.
    """
    try:
        url = URL(origin)
        is_address = url.host == "localhost" or bool(ip_address(url.host or ""))
    except ValueError:
        return False
    return is_address and origin.partition("://")[2] == host


def _is_local(origin: str) -> bool:
    try:
        url = URL(origin)
    except ValueError:
        return False
    host = url.host or ""
    is_this_machine = host in ("localhost", "127.0.0.1", "::1") or host.endswith(".localhost")
    return is_this_machine and url.scheme in ("http", "https")
