"""From the errors of the server to gRPC statuses with google.rpc details, by one table."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import grpc
from google.rpc import error_details_pb2, status_pb2

from headrace.v1 import error_reason_pb2 as reasons
from headrace_server import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

ERROR_DOMAIN: Final = "headrace"

# Percent-encoded this is at most 3 KiB of trailers. Over the client's limit for
# metadata (8 KiB by default) the client would see another code than the one sent.
MAX_MESSAGE_BYTES: Final = 1024


class UnknownServiceError(errors.RequestError):
    """Health was asked about a service that is not here."""


_Row = tuple[grpc.StatusCode, "reasons.ErrorReason.ValueType"]

_TABLE: Final[Mapping[type[errors.RequestError], _Row]] = {
    errors.InvalidFieldError: (
        grpc.StatusCode.INVALID_ARGUMENT,
        reasons.ERROR_REASON_INVALID_FIELD,
    ),
    errors.TemplateRefusalError: (
        grpc.StatusCode.INVALID_ARGUMENT,
        reasons.ERROR_REASON_INVALID_FIELD,
    ),
    errors.ContextLengthExceededError: (
        grpc.StatusCode.INVALID_ARGUMENT,
        reasons.ERROR_REASON_CONTEXT_LENGTH_EXCEEDED,
    ),
    errors.InvalidConstraintError: (
        grpc.StatusCode.INVALID_ARGUMENT,
        reasons.ERROR_REASON_INVALID_CONSTRAINT,
    ),
    errors.UnauthenticatedError: (
        grpc.StatusCode.UNAUTHENTICATED,
        reasons.ERROR_REASON_UNAUTHENTICATED,
    ),
    errors.ModelNotFoundError: (
        grpc.StatusCode.NOT_FOUND,
        reasons.ERROR_REASON_MODEL_NOT_FOUND,
    ),
    errors.DuplicateRequestIdError: (
        grpc.StatusCode.ALREADY_EXISTS,
        reasons.ERROR_REASON_DUPLICATE_REQUEST_ID,
    ),
    errors.OverloadedError: (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        reasons.ERROR_REASON_OVERLOADED,
    ),
    errors.ClientStalledError: (
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        reasons.ERROR_REASON_CLIENT_STALLED,
    ),
    errors.DrainingError: (
        grpc.StatusCode.UNAVAILABLE,
        reasons.ERROR_REASON_DRAINING,
    ),
    errors.EngineUnavailableError: (
        grpc.StatusCode.UNAVAILABLE,
        reasons.ERROR_REASON_ENGINE_UNAVAILABLE,
    ),
    errors.QueueTimeoutError: (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        reasons.ERROR_REASON_QUEUE_TIMEOUT,
    ),
    errors.DeadlineExceededError: (
        grpc.StatusCode.DEADLINE_EXCEEDED,
        reasons.ERROR_REASON_DEADLINE_EXCEEDED,
    ),
    errors.RequestFailedError: (
        grpc.StatusCode.INTERNAL,
        reasons.ERROR_REASON_INTERNAL,
    ),
    # Said by grpc.health.v1, which has no reasons.
    UnknownServiceError: (
        grpc.StatusCode.NOT_FOUND,
        reasons.ERROR_REASON_UNSPECIFIED,
    ),
}


@dataclass(frozen=True, slots=True)
class RpcStatus:
    """A status as it goes out.

    Args:
        code: never OK.
        reason: an ErrorReason without its prefix, for the log; None outside the contract.
        message: clean text of at most `MAX_MESSAGE_BYTES`.
        logged_message: the same; None where it may quote the caller.
        trailers: the details and, where a retry helps, the time to wait.
    """

    code: grpc.StatusCode
    reason: str | None
    message: str
    logged_message: str | None
    trailers: tuple[tuple[str, str | bytes], ...]


def to_status(error: errors.RequestError) -> RpcStatus:
    """Look the error up in the table and build its status."""
    code, reason = _TABLE[type(error)]
    name = reasons.ErrorReason.Name(reason).removeprefix("ERROR_REASON_") if reason else None
    message = clean(error.message)
    status = status_pb2.Status(code=code.value[0], message=message)
    if name is not None:
        status.details.add().Pack(error_details_pb2.ErrorInfo(reason=name, domain=ERROR_DOMAIN))
    trailers: list[tuple[str, str | bytes]] = []
    if isinstance(error, errors.InvalidFieldError):
        request = error_details_pb2.BadRequest()
        request.field_violations.add(field=clean(error.field), description=message)
        status.details.add().Pack(request)
    if isinstance(error, errors.RetryableError):
        milliseconds = max(1, round(error.retry_after_seconds * 1000))
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(milliseconds)
        status.details.add().Pack(retry)
        trailers.append(("grpc-retry-pushback-ms", str(milliseconds)))
    trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    may_quote = isinstance(error, errors.TemplateRefusalError | errors.InvalidConstraintError)
    logged_message = None if may_quote else message
    return RpcStatus(code, name, message, logged_message, tuple(trailers))


def internal_error(request_id: str) -> errors.RequestFailedError:
    """Say that the fault is ours, with the id under which the log tells more."""
    return errors.RequestFailedError(
        f"The server failed on this request; its log tells more under the id {request_id}."
    )


def clean(text: str) -> str:
    """Make text safe for a status.

    A lone surrogate would leave the client without any status, and a control character
    could write into somebody's terminal or log.
    """
    # The cut comes first, so that the cost does not grow with the text.
    text = "".join(
        " " if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") else c
        for c in text[: MAX_MESSAGE_BYTES + 1]
    )
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MAX_MESSAGE_BYTES:
        return encoded.decode("utf-8")
    ellipsis = "…".encode()
    return encoded[: MAX_MESSAGE_BYTES - len(ellipsis)].decode("utf-8", "ignore") + "…"
