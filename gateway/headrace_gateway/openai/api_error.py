"""An error as OpenAI's API shows it: status, message, type, code and param."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class ApiError(Exception):
    """A request that ends with an error.

    Args:
        status: the HTTP status.
        message: what happened and what to do, one or two sentences without
            anything of the prompt.
        type: OpenAI's kind of error.
        code: OpenAI's word for the error, where there is one.
        param: the JSON field at fault, where there is one.
        retry_after_seconds: when to try again, for 429 and 503.
        headers: headers that belong to the status, such as Allow.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",  # noqa: A002 - OpenAI's name for it
        code: str | None = None,
        param: str | None = None,
        retry_after_seconds: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.retry_after_seconds = retry_after_seconds
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        """Return the JSON body."""
        return msgspec.json.encode(self.answer())

    def answer(self) -> ErrorBody:
        """Return what the JSON body is made of."""
        return ErrorBody(Error(_utf8(self.message), self.type, self.param, self.code))

    def response_headers(self) -> dict[str, str]:
        """Return the headers that go with the body."""
        if self.retry_after_seconds is None:
            return self.headers
        seconds = max(self.retry_after_seconds, 0.001)
        # OpenAI's SDKs prefer the exact one, everything else knows whole seconds.
        return {
            **self.headers,
            "Retry-After": str(math.ceil(seconds)),
            "retry-after-ms": str(math.ceil(seconds * 1000)),
        }


def invalid_field(name: str, message: str) -> ApiError:
    """Return the refusal of one JSON field; the message is a sentence that names it."""
    return ApiError(400, message, param=name)


class Error(msgspec.Struct, frozen=True):
    """What happened; `param` names the field at fault, where there is one."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """An error."""

    error: Error


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
