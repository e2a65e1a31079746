"""gRPC statuses with their google.rpc details → the exceptions of this package; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from headrace import errors
from headrace.no_connection import GRPC_PORT_HINT, why_no_connection
from headrace.requests import option_of_field

if TYPE_CHECKING:
    from headrace.channel import Address

Metadata = Iterable[tuple[str, str | bytes]]

_REQUEST_ID_KEY = "x-request-id"
_DETAILS_KEY = "grpc-status-details-bin"
_PUSHBACK_KEY = "grpc-retry-pushback-ms"

_CLASS_OF_REASON: dict[str, type[errors.HeadraceError]] = {
    "INVALID_FIELD": errors.InvalidRequestError,
    "INVALID_CONSTRAINT": errors.InvalidRequestError,
    "CONTEXT_LENGTH_EXCEEDED": errors.ContextLengthExceededError,
    "UNAUTHENTICATED": errors.AuthenticationError,
    "MODEL_NOT_FOUND": errors.ModelNotFoundError,
    "DUPLICATE_REQUEST_ID": errors.DuplicateRequestIdError,
    "OVERLOADED": errors.OverloadedError,
    "CLIENT_STALLED": errors.ClientStalledError,
    "QUEUE_TIMEOUT": errors.QueueTimeoutError,
}
# For the reasons that are not above, and for statuses of gRPC itself and of proxies.
_CLASS_OF_CODE: dict[StatusCode, type[errors.HeadraceError]] = {
    StatusCode.INVALID_ARGUMENT: errors.InvalidRequestError,
    StatusCode.UNAUTHENTICATED: errors.AuthenticationError,
    StatusCode.RESOURCE_EXHAUSTED: errors.OverloadedError,
    StatusCode.UNAVAILABLE: errors.UnavailableError,
    StatusCode.DEADLINE_EXCEEDED: errors.DeadlineExceededError,
    StatusCode.CANCELLED: errors.CallCancelledError,
    StatusCode.INTERNAL: errors.InternalError,
    StatusCode.UNKNOWN: errors.InternalError,
    StatusCode.DATA_LOSS: errors.InternalError,
}


@contextmanager
def raising_own_errors(address: Address) -> Iterator[None]:
    """Turn an error of gRPC into one of this package."""
    try:
        yield
    except grpc.RpcError as error:
        raise to_error(error, address) from error


def to_error(error: grpc.RpcError, address: Address) -> errors.HeadraceError:
    """Return the exception for a failed call to `address`."""
    code, text = error.code(), error.details() or ""
    metadata = _mapping(cast("Metadata | None", error.trailing_metadata()))
    info, bad_request, retry = _details(metadata)
    error_class = _CLASS_OF_REASON.get(info.reason) or _CLASS_OF_CODE.get(
        code, errors.HeadraceError
    )
    if not info.reason and "larger than max" in text:
        error_class = errors.InvalidRequestError
    field = next((violation.field for violation in bad_request.field_violations), None)
    option = None if field is None else option_of_field(field)
    return error_class(
        _sentence(text, field, option) if info.reason else _explain(code, text, address),
        code=code,
        reason=info.reason or None,
        field=option,
        retry_after_seconds=_retry_after_seconds(retry, metadata),
        request_id=_text(metadata, _REQUEST_ID_KEY),
    )


def request_id_of(headers: Metadata | None) -> str | None:
    """Return the id of a request from the response headers; None where they have none."""
    return _text(_mapping(headers), _REQUEST_ID_KEY)


def _mapping(metadata: Metadata | None) -> dict[str, str | bytes]:
    return dict(metadata or ())


def _details(
    metadata: dict[str, str | bytes],
) -> tuple[ErrorInfo, BadRequest, RetryInfo]:
    info, bad_request, retry = ErrorInfo(), BadRequest(), RetryInfo()
    serialized = metadata.get(_DETAILS_KEY, b"")
    try:
        status = Status.FromString(serialized if isinstance(serialized, bytes) else b"")
        for detail in status.details:
            for message in (info, bad_request, retry):
                detail.Unpack(message)
    except DecodeError:  # not google.rpc.Status: a proxy may put anything there
        return ErrorInfo(), BadRequest(), RetryInfo()
    return info, bad_request, retry


def _retry_after_seconds(retry: RetryInfo, metadata: dict[str, str | bytes]) -> float | None:
    if retry.HasField("retry_delay"):
        return float(retry.retry_delay.ToNanoseconds() / 1e9)
    pushback = _text(metadata, _PUSHBACK_KEY)
    return int(pushback) / 1000 if pushback is not None and pushback.isdecimal() else None


def _text(metadata: dict[str, str | bytes], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) else None


def _sentence(text: str, field: str | None, option: str | None) -> str:
    """Call the field at the head of the server's sentence by the name it has here."""
    if field and option and text.startswith(field):
        return option + text.removeprefix(field)
    return text


def _explain(code: StatusCode, text: str, address: Address) -> str:
    """Return a sentence for a status that the server did not write."""
    match code:
        case StatusCode.UNAVAILABLE if "failed to connect" in text:
            return why_no_connection(text, address)
        case StatusCode.UNAVAILABLE if "Failed parsing HTTP/2" in text or "http1" in text:
            return f"{address} does not speak gRPC. {GRPC_PORT_HINT}"
        case StatusCode.UNAVAILABLE if "errors resolving" in text:
            return f"The host in {address} is not known. Check the address."
        case StatusCode.UNAVAILABLE:
            return f"The connection to {address} was lost ({text})."
        case StatusCode.DEADLINE_EXCEEDED:
            return f"The call to {address} took longer than its timeout."
        case StatusCode.UNIMPLEMENTED:
            return f"The server at {address} does not offer this call; it may be another service."
        case StatusCode.UNAUTHENTICATED:
            return f"{address} takes no call without a key that it knows: {text or code.name}."
        case _:
            return f"The call to {address} failed: {text or code.name}."
