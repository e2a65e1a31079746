"""The boundary of the RPCs: every call gets a caller, an id, one status and one line in the log."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc import aio

from headrace_server.errors import (
    DeadlineExceededError,
    EngineUnavailableError,
    InvalidFieldError,
    RequestError,
    RequestFailedError,
)
from headrace_server.rpc.calls import DEADLINE_TOLERANCE_SECONDS, Call, Calls
from headrace_server.rpc.errors import RpcStatus, internal_error, to_status
from headrace_server.rpc.open_calls import OPEN_REQUEST_SECONDS, OpenCalls
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

    from headrace_server.rpc.callers import Callers

_log = logging.getLogger(__name__)

Context: TypeAlias = "aio.ServicerContext[Any, Any]"
Handler: TypeAlias = "Callable[[Call, Any], Awaitable[Message | None]]"
RpcHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

# An engine that was interrupted is back, or known to be gone, by then.
_INTERRUPTED_RETRY_SECONDS = 1.0
# Names of RPCs that do not exist are as long as callers like.
_MAX_LOGGED_PATH: Final = 128
# How long the message of a call may take to come: as long as the gateway gives a body.
_REQUEST_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Method:
    """An RPC that is served.

    Args:
        name: for the log.
        needs_key: of its callers.
        to_handler: makes what answers a call, given whose key that came with.
    """

    name: str
    needs_key: bool
    to_handler: Callable[[str], RpcHandler]


class Boundary(grpc.GenericRpcHandler):
    """Lets calls in, and has the handlers of services, each behind the same boundary.

    Args:
        calls: the register of the calls in progress and the gate before them.
        stall_seconds: the longest time that one write may take.
        callers: who may call, and who calls.
    """

    def __init__(self, calls: Calls, stall_seconds: float, callers: Callers) -> None:
        self._calls = calls
        self._stall_seconds = stall_seconds
        self._callers = callers
        self._open_calls = OpenCalls()
        self._methods: dict[str, _Method] = {}

    def register(
        self,
        service: ServiceDescriptor,
        handlers: Mapping[str, Handler],
        *,
        name: str | None = None,
        needs_key: bool = True,
        is_probe: bool = False,
        log_level: int = logging.INFO,
    ) -> None:
        """Serve every RPC of a service.

        Args:
            service: an RPC of it without a handler is an error.
            handlers: by name of the RPC. That of an RPC with one response returns it,
                that of a stream writes them to the call; that of a stream of
                requests is given an iterator of them.
            name: the full name under which it is served, if not its own.
            needs_key: of its callers, where there are keys.
            is_probe: the calls are probes, see `Calls`.
            log_level: of their lines in the access log.
        """
        for method in service.methods:
            self._methods[f"/{name or service.full_name}/{method.name}"] = self._to_method(
                method, handlers[method.name], needs_key, is_probe, log_level
            )

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> RpcHandler | None:
        """Return what answers a call, or refuses it before anything of its request has arrived.

        gRPC asks for it when it has the headers of a call. It answers by itself for what does
        not exist, but that is told to those only who may call.
        """
        path = handler_call_details.method
        method = self._methods.get(path)
        key_name = ""
        if method is None or method.needs_key:
            try:
                key_name = self._callers.authenticate(handler_call_details.invocation_metadata)
            except Exception as error:  # noqa: BLE001  # of others grpc.aio would send the text
                name = path[:_MAX_LOGGED_PATH] if method is None else method.name
                return self._to_refusal(name, error)
        return None if method is None else method.to_handler(key_name)

    def _to_method(
        self,
        method: MethodDescriptor,
        handler: Handler,
        needs_key: bool,
        is_probe: bool,
        log_level: int,
    ) -> _Method:
        assert method.server_streaming or not method.client_streaming
        name = f"{method.containing_service.name}/{method.name}"
        parse = _parser(method)
        serialize = GetMessageClass(method.output_type).SerializeToString

        # Requests arrive as bytes: what grpc.aio does with a message that it cannot parse
        # is to send the text of the exception.
        async def work(call: Call, raws: AsyncIterator[bytes]) -> Message | None:
            if method.client_streaming:
                return await handler(call, (parse(raw) async for raw in raws))
            if needs_key:
                return await handler(call, parse(await _only(raws, _REQUEST_SECONDS)))
            with self._open_calls.enter(call):
                return await handler(call, parse(await _only(raws, OPEN_REQUEST_SECONDS)))

        def to_handler(key_name: str) -> RpcHandler:
            # For gRPC all are streams, since of those it awaits no request: one that never comes
            # has its time here, and one that ends before would leave its caller without a status.
            async def respond(raws: AsyncIterator[bytes], context: Context) -> None:
                call = self._open_call(context, name, key_name, log_level)
                await self._answer(call, context, is_probe, lambda: work(call, raws))

            return grpc.stream_stream_rpc_method_handler(respond, None, serialize)

        return _Method(name, needs_key, to_handler)

    def _to_refusal(self, name: str, error: Exception) -> RpcHandler:
        async def fail() -> None:
            raise error

        async def refuse(raws: AsyncIterator[bytes], context: Context) -> None:
            call = self._open_call(context, name, "", logging.INFO)
            await self._answer(call, context, True, fail)

        return grpc.stream_stream_rpc_method_handler(refuse)

    def _open_call(self, context: Context, name: str, key_name: str, log_level: int) -> Call:
        caller = self._callers.identify(context, key_name)
        return Call(context, name, caller, self._stall_seconds, log_level)

    async def _answer(
        self,
        call: Call,
        context: Context,
        is_probe: bool,
        work: Callable[[], Awaitable[Message | None]],
    ) -> None:
        try:
            async with self._calls.enter(call, is_probe=is_probe):
                await _work_in_time(call, work)
        except asyncio.CancelledError:
            if _client_left():
                # Re-raised: a handler that returns instead leaks memory inside grpc.aio.
                _log_call(call, _code_of_leaving(call))
                raise
            # Without a status of ours grpc.aio would send none, and the client would hang.
            status = to_status(
                EngineUnavailableError(
                    "The request was interrupted; send it again.", _INTERRUPTED_RETRY_SECONDS
                )
            )
        except aio.BaseError:
            # The connection broke under a write; the cancellation is on its way.
            _log_call(call, _code_of_leaving(call))
            raise
        except RequestError as error:
            status = _to_status(call, error)
        except Exception:  # noqa: BLE001  # the catch-all: its text must not leave the server
            _log.exception("unexpected error", extra={"fields": {"request_id": call.id}})
            status = to_status(internal_error(call.id))
        else:
            _log_call(call, "OK")
            return
        _log_call(call, status.code.name, status)
        trailers = (*status.trailers, call.id_header())
        await context.abort(status.code, status.message, trailers)  # it always raises


async def _work_in_time(call: Call, work: Callable[[], Awaitable[Message | None]]) -> None:
    if call.is_past_deadline():
        raise DeadlineExceededError("The deadline had passed when the request arrived.")
    response = await work()
    if response is not None:
        await call.accept()
        await call.write(response)


async def _only(raws: AsyncIterator[bytes], timeout_seconds: float) -> bytes:
    """Return the one request of a call."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await anext(raws)
    except TimeoutError:
        raise DeadlineExceededError(
            f"The request did not arrive within {timeout_seconds:g} s."
        ) from None
    except StopAsyncIteration:
        # Of a request over the limit gRPC tells the client by itself, and nothing here.
        raise InvalidFieldError("", "The call has no request, or one over 4 MiB.") from None


def _parser(method: MethodDescriptor) -> Callable[[bytes], Message]:
    message_class = GetMessageClass(method.input_type)

    def parse(raw: bytes) -> Message:
        try:
            return message_class.FromString(raw)
        except DecodeError:
            raise InvalidFieldError(
                "", f"The message is not a valid {method.input_type.full_name} in protobuf."
            ) from None

    return parse


def _client_left() -> bool:
    """Tell a cancellation by gRPC from one that came out of something awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _code_of_leaving(call: Call) -> str:
    is_late = call.is_past_deadline(DEADLINE_TOLERANCE_SECONDS)
    return "DEADLINE_EXCEEDED" if is_late else "CANCELLED"


def _to_status(call: Call, error: RequestError) -> RpcStatus:
    if isinstance(error, RequestFailedError):
        log_event(_log, logging.ERROR, "request failed", request_id=call.id, cause=error.message)
        error = internal_error(call.id)
    return to_status(error)


def _log_call(call: Call, code: str, status: RpcStatus | None = None) -> None:
    """Write the line of the access log. It never holds text of a prompt or an answer."""
    timing = call.timing
    log_event(
        _log,
        call.log_level,
        "call",
        request_id=call.id,
        method=call.method,
        code=code,
        reason=status.reason if status else None,
        message=status.logged_message if status else None,
        stage=None if code == "OK" else call.stage.value,
        client_id=call.client_id,
        label=call.label,
        caller=call.caller.name,
        peer=call.peer,
        prompt_tokens=call.prompt_token_count,
        cached_tokens=call.cached_token_count,
        output_tokens=call.output_token_count,
        queue_ms=_milliseconds(timing.queue_seconds if timing else None),
        first_token_ms=_milliseconds(
            timing.first_token_seconds if timing else call.first_token_seconds
        ),
        total_ms=_milliseconds(call.age_seconds),
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
