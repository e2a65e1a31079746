"""A client of Headrace on betterproto2: streams answers, and turns its errors into one class."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from grpclib.client import Channel
from grpclib.const import Status
from grpclib.encoding.base import StatusDetailsCodecBase
from grpclib.exceptions import GRPCError, StreamTerminatedError
from headrace_api.google.rpc import BadRequest, ErrorInfo, RetryInfo
from headrace_api.google.rpc import Status as RichStatus
from headrace_api.headrace.v1 import (
    Chat,
    ChatMessage,
    GenerateRequest,
    InferenceServiceStub,
    Role,
    Stopping,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncGenerator, Iterator

    from headrace_api.headrace.v1 import GenerateResponse

DEFAULT_TARGET = "localhost:1920"


class HeadraceError(Exception):
    """A call that failed.

    Attributes:
        code: the status of gRPC.
        message: what happened and what to do, in one sentence.
        reason: a value of ErrorReason, such as ``OVERLOADED``; None where the server did not say.
        field: the field of the request that is at fault, where there is one.
        retry_seconds: after which time to try again, where that helps.
    """

    def __init__(
        self,
        code: Status,
        message: str,
        *,
        reason: str | None = None,
        field: str | None = None,
        retry_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{reason or code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.field = field
        self.retry_seconds = retry_seconds


class Headrace:
    """A connection to a server; open it with ``async with``.

    Args:
        target: host:port of gRPC.
        api_key: where the server wants one.
        tls: how to check the server, from ``tls_context`` below; None for no TLS.
    """

    def __init__(
        self,
        target: str = DEFAULT_TARGET,
        *,
        api_key: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.channel = open_channel(target, tls)
        self.metadata = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._inference = InferenceServiceStub(self.channel, metadata=self.metadata)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.channel.close()

    async def generate(
        self, request: GenerateRequest, *, timeout: float | None = None
    ) -> AsyncGenerator[GenerateResponse]:
        """Stream an answer. Close the generator, by `contextlib.aclosing`, to stop the work early.

        Raises:
            HeadraceError: the call failed.
        """
        with raising_own_errors():
            async for response in self._inference.generate(request, timeout=timeout):
                yield response


def user_prompt(text: str, *, max_tokens: int | None = None) -> GenerateRequest:
    """Return a request with a chat of one message."""
    return GenerateRequest(
        chat=Chat(messages=[ChatMessage(role=Role.USER, content=text)]),
        stopping=Stopping(max_output_tokens=max_tokens),
    )


def open_channel(target: str, tls: ssl.SSLContext | None) -> Channel:
    """Open a channel whose errors have their details."""
    host, _, port = target.rpartition(":")
    return Channel(host.strip("[]"), int(port), ssl=tls, status_details_codec=_Details())


def tls_context(
    ca_certs: str | None = None, certfile: str | None = None, keyfile: str | None = None
) -> ssl.SSLContext:
    """Return how to check the server: by the system's authorities or those of a file.

    Args:
        ca_certs: the file of authorities.
        certfile: the client's own certificate, where the server wants one.
        keyfile: its private key.
    """
    import ssl

    context = ssl.create_default_context(cafile=ca_certs)
    context.set_alpn_protocols(["h2"])
    if certfile is not None:
        context.load_cert_chain(certfile, keyfile)
    return context


class _Details(StatusDetailsCodecBase):
    """Reads the details of errors without Google's own protobuf, which grpclib takes else."""

    def encode(self, status: Status, message: str | None, details: Any) -> bytes:
        raise NotImplementedError("This is a client.")

    def decode(self, status: Status, message: str | None, data: bytes) -> list[Any]:
        known = []
        for detail in RichStatus.parse(data).details:
            try:
                known.append(detail.unpack())
            except TypeError:  # a kind of detail that is not in headrace_api
                continue
        return known


@contextmanager
def raising_own_errors() -> Iterator[None]:
    """Turn what grpclib raises into `HeadraceError`."""
    try:
        yield
    except GRPCError as error:
        raise _to_error(error) from error
    except TimeoutError as error:
        raise HeadraceError(
            Status.DEADLINE_EXCEEDED, "The answer took longer than the timeout."
        ) from error
    except StreamTerminatedError as error:
        is_reset = str(error).startswith("Stream reset")  # the call, and not the whole connection
        code = Status.INTERNAL if is_reset else Status.UNAVAILABLE
        raise HeadraceError(code, f"The call was cut off: {error}.") from error
    except OSError as error:
        raise HeadraceError(Status.UNAVAILABLE, f"There is no connection: {error}.") from error


def _to_error(error: GRPCError) -> HeadraceError:
    reason = field = retry_seconds = None
    for detail in error.details or ():
        match detail:
            case ErrorInfo():
                reason = detail.reason
            case BadRequest(field_violations=[violation, *_]):
                field = violation.field
            case RetryInfo(retry_delay=delay) if delay is not None:
                retry_seconds = delay.total_seconds()
    return HeadraceError(
        error.status,
        error.message or "The server did not say why.",
        reason=reason,
        field=field,
        retry_seconds=retry_seconds,
    )
