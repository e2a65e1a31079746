"""The calls in progress: what each may do to its client, and how all of them end in a drain."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import asynccontextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from headrace_server.errors import ClientStalledError, DrainingError, RequestError
from headrace_server.rpc.convert.checks import is_label

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import Message
    from grpc import aio

    from headrace_server.rpc.callers import Caller
    from headrace_server.text.delta import Timing

REQUEST_ID_HEADER: Final = "x-request-id"

# A client that has another address, or waits for this one to come back, finds a server by then.
DRAINING_RETRY_SECONDS: Final = 1.0

# A client gives up at its deadline a network delay before the server does, so that a
# cancellation this close to the deadline was the deadline.
DEADLINE_TOLERANCE_SECONDS: Final = 0.05


class Stage(Enum):
    """How far a call has come; the log tells it of a call that did not end well."""

    ADMISSION = "admission"
    WAITING = "waiting for the first token"
    STREAMING = "streaming"
    WRITING = "blocked in write"


class Call:
    """One call in progress.

    Args:
        context: the call as gRPC knows it.
        method: its name for the log, such as ``InferenceService/Generate``.
        caller: whose call it is.
        stall_seconds: the longest time that one write may take.
        log_level: of its line in the access log.

    Attributes:
        id: unique for ever, the server's own.
        caller: whose call it is.
        peer: the client's end of its connection.
        client_id: what the client calls this call, from its `x-request-id`.
        stage: how far it has come.
        label, prompt_token_count, cached_token_count, output_token_count,
        first_token_seconds, timing: what the log tells of it beside its status, as far as
            known.
    """

    def __init__(
        self,
        context: aio.ServicerContext[Any, Any],
        method: str,
        caller: Caller,
        stall_seconds: float,
        log_level: int,
    ) -> None:
        self.id = uuid.uuid4().hex
        self.method = method
        self.log_level = log_level
        self.caller = caller
        self.peer = context.peer()
        self.client_id = _client_id(context)
        self.arrival_seconds = asyncio.get_running_loop().time()
        self.stage = Stage.ADMISSION
        self.label: str | None = None
        self.prompt_token_count: int | None = None
        self.cached_token_count: int | None = None
        self.output_token_count: int | None = None
        self.first_token_seconds: float | None = None
        self.timing: Timing | None = None
        self._context = context
        self._stall_seconds = stall_seconds
        remaining: float | None = context.time_remaining()  # the stubs forget the None
        self._deadline_seconds = None if remaining is None else self.arrival_seconds + remaining
        self._end: asyncio.Timeout = asyncio.timeout(None)
        self._end_error: RequestError | None = None

    @property
    def age_seconds(self) -> float:
        """The time since arrival."""
        return asyncio.get_running_loop().time() - self.arrival_seconds

    def is_past_deadline(self, tolerance_seconds: float = 0.0) -> bool:
        """Tell whether the client has stopped waiting."""
        if self._deadline_seconds is None:
            return False
        now = asyncio.get_running_loop().time()
        return now + tolerance_seconds >= self._deadline_seconds

    def id_header(self) -> tuple[str, str]:
        """The id by which the client knows this call: its own, or the server's."""
        return (REQUEST_ID_HEADER, self.client_id or self.id)

    async def accept(self, *headers: tuple[str, str | bytes]) -> None:
        """Send the response headers, these and the id: the request is admitted."""
        self.stage = Stage.WAITING
        await self._context.send_initial_metadata((self.id_header(), *headers))

    async def write(self, message: Message) -> None:
        """Send a response.

        Raises:
            ClientStalledError: the client has not made room for it in time.
        """
        self.stage = Stage.WRITING
        try:
            async with asyncio.timeout(self._stall_seconds):
                await self._context.write(message)
        except TimeoutError:
            raise ClientStalledError(
                f"The answer was not read for {self._stall_seconds:g} s and was dropped."
            ) from None
        self.stage = Stage.STREAMING

    def end(self, error: RequestError) -> None:
        """Interrupt the call wherever it waits; it ends with `error`. Only the first one counts."""
        if self._end_error is None:
            self._end_error = error
            self._end.reschedule(asyncio.get_running_loop().time())

    @asynccontextmanager
    async def endable(self) -> AsyncIterator[None]:
        """Let `end` interrupt the body."""
        try:
            async with self._end:
                yield
        except TimeoutError:
            if self._end_error is None:
                raise
            raise self._end_error from None


class Calls:
    """The calls in progress, and the gate that a drain closes.

    Probes, such as health checks, pass the gate, and a drain does not wait for them.
    """

    def __init__(self) -> None:
        self._live: set[Call] = set()
        self._probes: set[Call] = set()
        self._draining = False
        self._left = asyncio.Event()

    @property
    def num_live(self) -> int:
        """The number of calls in progress without probes."""
        return len(self._live)

    @asynccontextmanager
    async def enter(self, call: Call, *, is_probe: bool) -> AsyncIterator[None]:
        """Hold a call for the time of its body.

        Raises:
            DrainingError: the gate is closed.
            RequestError: the error of `end_all`.
        """
        if self._draining and not is_probe:
            raise DrainingError(
                "The server is about to stop; send the request again.", DRAINING_RETRY_SECONDS
            )
        calls = self._probes if is_probe else self._live
        calls.add(call)
        try:
            async with call.endable():
                yield
        finally:
            calls.discard(call)
            left, self._left = self._left, asyncio.Event()
            left.set()

    def close_gate(self) -> None:
        """Refuse new calls from now on; those in progress go on."""
        self._draining = True

    async def wait_until_idle(self) -> None:
        """Wait until no call but probes is in progress."""
        while self._live:
            await self._left.wait()

    async def wait_until_empty(self) -> None:
        """Wait until no call is in progress, nor a probe."""
        while self._live or self._probes:
            await self._left.wait()

    def end_all(self, error: RequestError) -> None:
        """Interrupt all calls in progress, probes too; each ends with `error`."""
        for call in (*self._live, *self._probes):
            call.end(error)


def _client_id(context: aio.ServicerContext[Any, Any]) -> str | None:
    """What the client calls its call, if that is short and printable."""
    for key, value in context.invocation_metadata() or ():
        if key == REQUEST_ID_HEADER:
            return value if isinstance(value, str) and is_label(value) else None
    return None
