"""The table from what the server and aiohttp raise to OpenAI's errors."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from headrace_gateway.openai.api_error import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

_log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 1.0
"""When to try again where the server does not say: about the time of a reconnect."""

_DOMAIN = "headrace"
_TOO_LARGE = "larger than max"  # the words of gRPC itself for a message over the limit


@dataclass(frozen=True, slots=True)
class _Row:
    """`message` replaces the status text where that is not written for callers."""

    status: int
    type: str
    code: str | None
    message: str


_SERVER_ERROR = _Row(500, "server_error", "internal_error", "The server failed on this request.")
_UNAVAILABLE = _Row(
    503, "server_error", "server_unavailable", "The inference server cannot be reached."
)

_ROWS = {
    grpc.StatusCode.INVALID_ARGUMENT: _Row(
        400, "invalid_request_error", None, "The request is not valid."
    ),
    grpc.StatusCode.UNAUTHENTICATED: _Row(
        401,
        "invalid_request_error",
        "invalid_api_key",
        "The API key is missing or wrong; send yours as the header Authorization: Bearer KEY "
        "or X-Api-Key: KEY.",
    ),
    grpc.StatusCode.PERMISSION_DENIED: _Row(
        403, "invalid_request_error", "permission_denied", "The API key does not allow this."
    ),
    grpc.StatusCode.NOT_FOUND: _Row(
        404, "invalid_request_error", "model_not_found", "No such model is served."
    ),
    grpc.StatusCode.ALREADY_EXISTS: _Row(
        409, "invalid_request_error", "duplicate_request_id", "The request id is in use."
    ),
    grpc.StatusCode.RESOURCE_EXHAUSTED: _Row(
        429, "rate_limit_error", "rate_limit_exceeded", "The server is overloaded."
    ),
    # The caller is still here, so it was not the caller who cancelled.
    grpc.StatusCode.CANCELLED: _UNAVAILABLE,
    grpc.StatusCode.UNAVAILABLE: _UNAVAILABLE,
    grpc.StatusCode.UNIMPLEMENTED: _Row(
        501, "server_error", "not_implemented", "The inference server does not know this call."
    ),
    grpc.StatusCode.DEADLINE_EXCEEDED: _Row(
        504, "timeout", "deadline_exceeded", "The time limit of the request has passed."
    ),
}

_TOO_LARGE_ROW = _Row(
    413,
    "invalid_request_error",
    "request_too_large",
    "The request is larger than the inference server takes.",
)

_REASON_CODES = {
    "CONTEXT_LENGTH_EXCEEDED": "context_length_exceeded",
    "CLIENT_STALLED": "client_stalled",
    "DRAINING": "draining",
    "ENGINE_UNAVAILABLE": "engine_unavailable",
    "QUEUE_TIMEOUT": "queue_timeout",
}
"""The reasons that say more than their status."""

_OWN_WORDS = frozenset({grpc.StatusCode.UNAUTHENTICATED})
"""Where the words of the server do not help: a key is sent otherwise over HTTP."""

_CHALLENGE = {"WWW-Authenticate": "Bearer"}

_PARAMS = {"model_not_found": "model", "duplicate_request_id": "request_id"}
"""The fields that a status is always about."""


@dataclass(frozen=True, slots=True)
class _Details:
    """The google.rpc details of a status; texts are empty where the server gave none."""

    reason: str = ""
    field: str = ""
    retry_after_seconds: float | None = None


def from_rpc_error(error: grpc.aio.AioRpcError, json_path: Callable[[str], str | None]) -> ApiError:
    """Translate a status of the server.

    Args:
        error: any status but OK.
        json_path: finds the JSON path behind a field of the contract.
    """
    details = _read_details(error)
    row = _row(error, details)
    path = json_path(details.field) if details.field else None
    retry_after = details.retry_after_seconds
    if retry_after is None and row.status in (429, 503):
        retry_after = RETRY_AFTER_SECONDS
    return ApiError(
        row.status,
        _message(error, details, json_path) or row.message,
        type=row.type,
        code=_REASON_CODES.get(details.reason, row.code),
        param=_param(row, path),
        retry_after_seconds=retry_after,
        headers=_CHALLENGE if row.status == 401 else None,
    )


def unauthenticated() -> ApiError:
    """Return the refusal of a request without a good key, as it is for the server's own."""
    row = _ROWS[grpc.StatusCode.UNAUTHENTICATED]
    return ApiError(row.status, row.message, type=row.type, code=row.code, headers=_CHALLENGE)


def contradicting_keys() -> ApiError:
    """Return the refusal of a request with several keys, of which any may be meant."""
    return ApiError(
        401,
        "The request has several API keys; send one, as the header Authorization: Bearer KEY or "
        "X-Api-Key: KEY.",
        code="invalid_api_key",
        headers=_CHALLENGE,
    )


def from_http_exception(error: web.HTTPException) -> ApiError:
    """Translate what aiohttp raises: 404, 405, 413, 417."""
    messages = {
        404: "There is nothing at this path; GET /openapi.json lists what there is.",
        405: "This path does not take this method.",
        413: "The body is larger than this gateway takes.",
        417: "The only expectation that can be met is 100-continue.",
    }
    codes = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}
    headers = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
    return ApiError(
        error.status,
        messages.get(error.status, f"{error.reason}."),
        code=codes.get(error.status),
        headers=headers,
    )


def from_unexpected(error: BaseException) -> ApiError:
    """Translate a fault of the gateway: an id for the caller, the rest for the log."""
    error_id = uuid.uuid4().hex
    _log.error("unexpected error", exc_info=error, extra={"fields": {"error_id": error_id}})
    return ApiError(
        500,
        f"The gateway failed on this request; its log has the cause under {error_id}.",
        type="server_error",
        code="internal_error",
    )


def malformed_http(status: int) -> ApiError:
    """Return the answer to bytes that are no HTTP request."""
    return ApiError(status, "The bytes received are not a valid HTTP/1.1 request.")


def packed_body() -> ApiError:
    """Return the answer to a body that cannot be unpacked."""
    return ApiError(
        400,
        "The body cannot be unpacked: send it as its Content-Encoding says, "
        "which may be gzip or deflate, or left out.",
    )


def draining() -> ApiError:
    """Return the refusal of a gateway that is about to stop."""
    return _server_error(503, "draining", "The gateway is about to stop and takes no new requests.")


def stopped() -> ApiError:
    """Return the error of an answer that was cut when the time of a drain was up."""
    return _server_error(
        503,
        "draining",
        "The gateway stopped before the answer was complete; send the request again.",
    )


def not_ready(error: grpc.aio.AioRpcError | None) -> ApiError:
    """Return the answer to a question after readiness that failed, or was denied without words."""
    message = "The inference server takes no requests now: it is about to start or to stop."
    if error is not None:
        translated = from_rpc_error(error, lambda _: None)
        if translated.status == 503:
            return translated
        # Only callers with a key are told how far a server with keys is.
        if translated.status not in (401, 403):
            message = "The inference server does not answer as one that is ready."
    return _server_error(503, "server_unavailable", message)


def no_answer() -> ApiError:
    """Return the error for a server that is there and says nothing, such as a frozen one."""
    return _server_error(503, "server_unavailable", "The inference server does not answer.")


def too_many_connections() -> ApiError:
    """Return the refusal of a connection."""
    return _server_error(503, "too_many_connections", "The gateway has too many connections.")


def unfinished_answer() -> ApiError:
    """Return the error of a stream that ends well without an end of the answer."""
    return _server_error(500, "internal_error", "The server did not finish its answer.")


def answer_too_large(max_bytes: int) -> ApiError:
    """Return the error of an answer that has grown past what is held of one."""
    return ApiError(
        400,
        f"The answer has passed the {max_bytes} bytes that are held of one; ask for less, such as "
        "by n, logprobs or the maximum of tokens, or stream a chat or a completion.",
        code="answer_too_large",
    )


def too_many_calls() -> ApiError:
    """Return the refusal of a gateway whose connections to the server are full."""
    return ApiError(
        429,
        "The gateway is overloaded.",
        type="rate_limit_error",
        code="rate_limit_exceeded",
        retry_after_seconds=RETRY_AFTER_SECONDS,
    )


def deadline_exceeded() -> ApiError:
    """Return the error of a request whose time was up before the server was asked."""
    row = _ROWS[grpc.StatusCode.DEADLINE_EXCEEDED]
    return ApiError(row.status, row.message, type=row.type, code=row.code)


def _server_error(status: int, code: str, message: str) -> ApiError:
    retry_after = RETRY_AFTER_SECONDS if status == 503 else None
    return ApiError(
        status, message, type="server_error", code=code, retry_after_seconds=retry_after
    )


def _row(error: grpc.aio.AioRpcError, details: _Details) -> _Row:
    if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and not details.reason:
        return _TOO_LARGE_ROW if _TOO_LARGE in (error.details() or "") else _ROWS[error.code()]
    return _ROWS.get(error.code(), _SERVER_ERROR)


def _message(
    error: grpc.aio.AioRpcError, details: _Details, json_path: Callable[[str], str | None]
) -> str | None:
    """Return the words that the server wrote for callers, with the names of JSON fields.

    Those of gRPC itself hold addresses.
    """
    message = error.details()
    if not details.reason or not message or error.code() in _OWN_WORDS:
        return None
    path = json_path(details.field) if details.field else None
    if path is not None and message.startswith(details.field):
        message = path + message.removeprefix(details.field)
    # The one field that the rules of others name.
    limit = json_path("stopping.max_output_tokens")
    return message.replace("max_output_tokens", limit) if limit else message


def _param(row: _Row, path: str | None) -> str | None:
    if path is not None:
        return path.split(".")[0].split("[")[0]
    return _PARAMS.get(row.code or "")


def _read_details(error: grpc.aio.AioRpcError) -> _Details:
    try:
        return _unpack(_status(error))
    except DecodeError:
        return _Details()


def _unpack(status: status_pb2.Status) -> _Details:
    info = error_details_pb2.ErrorInfo()
    bad_request = error_details_pb2.BadRequest()
    retry = error_details_pb2.RetryInfo()
    for detail in status.details:
        for message in (info, bad_request, retry):
            detail.Unpack(message)
    return _Details(
        reason=info.reason if info.domain == _DOMAIN else "",
        field=bad_request.field_violations[0].field if bad_request.field_violations else "",
        retry_after_seconds=retry.retry_delay.ToTimedelta().total_seconds() or None,
    )


def _status(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            return status_pb2.Status.FromString(value)
    return status_pb2.Status()
