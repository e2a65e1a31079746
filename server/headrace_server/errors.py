"""The errors that a request can end with, free of any transport.

`rpc.errors` maps each class to a gRPC status in one table. A message says what
happened and what to do; it never holds prompt text (but see `TemplateRefusalError`)
or exception text.
"""

from __future__ import annotations


class RequestError(Exception):
    """The base of every error that a caller may see.

    Args:
        message: one sentence for the caller.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidFieldError(RequestError):
    """A field of the request is missing, malformed or out of its range.

    Args:
        field: the path of the field in the protobuf request, such as
            ``sampling.temperature``.
        message: one sentence for the caller.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class TemplateRefusalError(InvalidFieldError):
    """The chat template refuses the messages.

    Its words may quote them: unlike all other messages, this one is for the caller alone.
    """


class ContextLengthExceededError(InvalidFieldError):
    """Prompt and requested output do not fit the context."""


class InvalidConstraintError(InvalidFieldError):
    """The constraint on the output is malformed, uses what is not supported, or is too complex."""


class UnauthenticatedError(RequestError):
    """The caller has shown no valid key."""


class ModelNotFoundError(RequestError):
    """No model of that name is served."""


class DuplicateRequestIdError(RequestError):
    """The caller has a live request with the same label."""


class RetryableError(RequestError):
    """A refusal that had no effect and may be tried again.

    Args:
        message: one sentence for the caller.
        retry_after_seconds: when to try again.
    """

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class OverloadedError(RetryableError):
    """The queue is full."""


class DrainingError(RetryableError):
    """The server is about to stop."""


class EngineUnavailableError(RetryableError):
    """The engine is loading, restarting, or died during the request."""


class QueueTimeoutError(RequestError):
    """max_queue_duration passed before the first step."""


class DeadlineExceededError(RequestError):
    """The deadline of the call had passed when it arrived."""


class ClientStalledError(RequestError):
    """The caller stopped reading its answer."""


class RequestFailedError(RequestError):
    """The engine failed on this request alone; the fault is the server's."""
