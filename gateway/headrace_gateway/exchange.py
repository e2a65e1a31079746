"""What the gateway knows of one HTTP request beside its content, and its line in the log."""

from __future__ import annotations

import logging
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from headrace_gateway.telemetry import log_event

if TYPE_CHECKING:
    from headrace_gateway.callers import Caller
    from headrace_gateway.openai.answer import TokenCounts

_log = logging.getLogger(__name__)

CLIENT_CLOSED_REQUEST = 499
"""The status in the log for a client that left or stopped reading; it is never sent."""

_SANE_REQUEST_ID = re.compile(r"[\x20-\x7e]{1,128}")
_MAX_LOGGED_PATH_CHARACTERS = 256
_PROBES = ("/health", "/livez", "/metrics", "/readyz")
_PAGE_FILES = "/ui/"


@dataclass(slots=True)
class Exchange:
    """One request and its answer.

    Args:
        request_id: the client's own where that is sane, for all logs.
        started: when it was first seen, on the clock of `time.monotonic`.
        counts: the tokens of the answer, once known.
        error_code: OpenAI's word for the error that it ended with.
        caller: who sent it; None for whom was not let in.
    """

    request_id: str
    started: float = field(default_factory=time.monotonic)
    counts: TokenCounts | None = None
    error_code: str | None = None
    caller: Caller | None = None

    def elapsed_milliseconds(self) -> int:
        """Return the time since the start."""
        return round((time.monotonic() - self.started) * 1000)


_KEY = web.RequestKey("exchange", Exchange)


def exchange_of(request: web.BaseRequest) -> Exchange:
    """Return what is known of a request; the first call starts it."""
    if _KEY not in request:
        given = request.headers.get("x-request-id", "")
        is_sane = _SANE_REQUEST_ID.fullmatch(given) is not None
        request[_KEY] = Exchange(given if is_sane else new_request_id())
    return request[_KEY]


def new_request_id() -> str:
    """Return an id for a request that has none."""
    return f"req_{uuid.uuid4().hex}"


class AccessLogger(AbstractAccessLogger):
    """Writes the line of every request that got an answer."""

    def log(
        self,
        request: web.BaseRequest,
        response: web.StreamResponse,
        time: float,
    ) -> None:
        """Write the line."""
        log_exchange(request, response.status)


def log_exchange(request: web.BaseRequest, status: int) -> None:
    """Write the line of a request: no prompt, no query, nothing of the body."""
    exchange = exchange_of(request)
    counts = exchange.counts
    log_event(
        _log,
        logging.DEBUG if _is_frequent(request.path) else logging.INFO,
        "request",
        request_id=exchange.request_id,
        method=request.method,
        path=request.path[:_MAX_LOGGED_PATH_CHARACTERS],
        status=status,
        error=exchange.error_code,
        total_ms=exchange.elapsed_milliseconds(),
        prompt_tokens=counts.prompt if counts else None,
        output_tokens=counts.output if counts else None,
        peer=request.remote,
        caller=exchange.caller.name if exchange.caller else None,
    )


def _is_frequent(path: str) -> bool:
    """Tell whether the line of a path would bury the others."""
    return path in _PROBES or path.startswith(_PAGE_FILES)
