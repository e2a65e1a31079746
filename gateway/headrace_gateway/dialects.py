"""How a path says what went wrong, and under which headers it tells the id of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_gateway.anthropic import api_error as anthropic

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from headrace_gateway.openai.api_error import ApiError

_ANTHROPIC_PATH = "/messages"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of the APIs that the gateway speaks.

    Args:
        error_status: returns the HTTP status of an error.
        error_body: returns its body; takes the id of the request.
        id_headers: the headers of a response with the id of the request.
    """

    error_status: Callable[[ApiError], int]
    error_body: Callable[[ApiError, str], msgspec.Struct]
    id_headers: tuple[str, ...]


def dialect_of(path: str) -> Dialect:
    """Return the dialect of a path: Anthropic's for its own, OpenAI's for all others."""
    path = path.removeprefix("/v1")
    is_anthropic = path == _ANTHROPIC_PATH or path.startswith(f"{_ANTHROPIC_PATH}/")
    return _ANTHROPIC if is_anthropic else _OPENAI


_OPENAI = Dialect(
    error_status=lambda error: error.status,
    error_body=lambda error, _: error.answer(),
    id_headers=("x-request-id",),
)

_ANTHROPIC = Dialect(
    error_status=anthropic.error_status,
    error_body=anthropic.error_body,
    id_headers=("request-id", "x-request-id"),
)
