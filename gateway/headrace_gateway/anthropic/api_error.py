"""An error as Anthropic's API shows it: a status of its own, a type and a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from headrace_gateway.openai.api_error import ApiError

_OVERLOADED = 529
_STATUSES = {503: _OVERLOADED}
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    _OVERLOADED: "overloaded_error",
}


class MessagesError(msgspec.Struct, frozen=True):
    """What happened."""

    type: str
    message: str


class MessagesErrorBody(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """An error."""

    error: MessagesError
    request_id: str


def error_status(error: ApiError) -> int:
    """Return the HTTP status: Anthropic has 529 where others have 503."""
    return _STATUSES.get(error.status, error.status)


def error_body(error: ApiError, request_id: str) -> MessagesErrorBody:
    """Return the body, which is as well the last event of a stream."""
    status = error_status(error)
    other = "api_error" if status >= 500 else "invalid_request_error"
    message = error.message.encode("utf-8", "replace").decode("utf-8")
    return MessagesErrorBody(MessagesError(_TYPES.get(status, other), message), request_id)
