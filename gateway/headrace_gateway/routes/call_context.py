"""What goes with the calls that an HTTP request makes: id, caller, deadline and affinity."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.upstream import CallContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from headrace_gateway.config import GatewayConfig

TIMEOUT_HEADER = "X-Request-Timeout"
"""The seconds that the client will wait for the whole answer."""

MAX_TIMEOUT_SECONDS = 86_400.0
"""A day: no answer takes longer, and gRPC's clock has no room for far more."""

AFFINITY_HEADER = "X-Headrace-Affinity"
"""A word that the requests of a conversation share, so that one replica gets them all."""

_SANE_AFFINITY = re.compile(r"[\x20-\x7e]{1,128}")
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def call_context(
    request: web.Request,
    config: GatewayConfig,
    json_path: Callable[[str], str | None] = lambda _: None,
) -> CallContext:
    """Return the context for all calls of a request.

    Raises:
        ApiError: 400, X-Request-Timeout is no time, or X-Headrace-Affinity no word.
    """
    exchange = exchange_of(request)
    limits = (_asked_timeout(request), config.request_timeout_seconds)
    timeout = min((limit for limit in limits if limit is not None), default=None)
    deadline = None if timeout is None else exchange.started + timeout
    return CallContext(
        exchange.request_id, exchange.caller, deadline, json_path, _affinity(request)
    )


def _affinity(request: web.Request) -> str | None:
    text = request.headers.get(AFFINITY_HEADER)
    if text is not None and _SANE_AFFINITY.fullmatch(text) is None:
        raise ApiError(400, f"{AFFINITY_HEADER} must be 1 to 128 printable ASCII characters.")
    return text


def _asked_timeout(request: web.Request) -> float | None:
    text = request.headers.get(TIMEOUT_HEADER)
    if text is None:
        return None
    # Python alone would take the digits of all scripts, and underscores between them.
    seconds = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise ApiError(
            400,
            f"{TIMEOUT_HEADER} must be a number of seconds above 0 and up to "
            f"{MAX_TIMEOUT_SECONDS:g}.",
        )
    return seconds
