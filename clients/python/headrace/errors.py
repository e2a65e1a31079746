"""The exceptions of the client, one class for each thing a caller can do about an error."""

from __future__ import annotations

from grpc import StatusCode


class HeadraceError(Exception):
    """The base of every error of a call, and the error where no class below fits.

    Attributes:
        message: what happened, in one sentence.
        code: the gRPC status code.
        reason: the server's reason, such as ``OVERLOADED``; None where a proxy or
            the connection failed.
        field: the option at fault, such as ``temperature`` or ``messages[1].role``;
            None where no single one is.
        retry_after_seconds: when to try again, as the server wishes; None where it
            did not say.
        request_id: the server's own id of the request, which stands in its log;
            None where it did not say.
    """

    def __init__(
        self,
        message: str,
        *,
        code: StatusCode = StatusCode.UNKNOWN,
        reason: str | None = None,
        field: str | None = None,
        retry_after_seconds: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.field = field
        self.retry_after_seconds = retry_after_seconds
        self.request_id = request_id


class InvalidRequestError(HeadraceError):
    """An option is missing, malformed or out of its range; `field` names it."""


class ContextLengthExceededError(InvalidRequestError):
    """Prompt and requested output do not fit the context of the model."""


class AuthenticationError(HeadraceError):
    """The server wants a key, and there is none or a wrong one; `api_key` gives it."""


class ModelNotFoundError(HeadraceError):
    """No model of that name is served."""


class DuplicateRequestIdError(HeadraceError):
    """A request with the same `request_id` is being answered."""


class OverloadedError(HeadraceError):
    """The server's queue is full; `retry_after_seconds` says when to try again."""


class ClientStalledError(HeadraceError):
    """The server gave up because the answer was not being read."""


class UnavailableError(HeadraceError):
    """The server cannot be reached, is loading or stopping, or lost its engine."""


class DeadlineExceededError(HeadraceError):
    """`timeout` passed before the call was complete."""


class QueueTimeoutError(DeadlineExceededError):
    """`max_queue_seconds` passed before the answer was begun."""


class CallCancelledError(HeadraceError):
    """The stream was cancelled or its client closed while the answer was being read."""


class InternalError(HeadraceError):
    """The server is at fault."""
