"""A response of server-sent events: kept alive, written in time, never a bare end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Self

from aiohttp import web

from headrace_gateway import errors, sse
from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.api_error import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


def encode_error(error: ApiError) -> bytes:
    """Return the event of an error, as OpenAI's chats have it."""
    return sse.encode(error.body())


class ClientGoneError(Exception):
    """The client has left, or has not read its answer for too long and was cut off."""


class EventStream:
    """The events of one response.

    Leaving the context with an error after the first event sends the error as the last
    event; before, the error goes on its way.

    Args:
        request: the one to answer.
        write_timeout_seconds: the longest time that the client may not read.
        keep_alive_interval_seconds: the silence after which a sign of life is sent.
    """

    def __init__(
        self,
        request: web.Request,
        *,
        write_timeout_seconds: float,
        keep_alive_interval_seconds: float,
    ) -> None:
        self._request = request
        self._write_timeout_seconds = write_timeout_seconds
        self._keep_alive_interval_seconds = keep_alive_interval_seconds
        self._last_write = time.monotonic()
        self._encode_error: Callable[[ApiError], bytes] = encode_error
        self._sign_of_life = sse.KEEP_ALIVE
        self.response = web.StreamResponse(headers=_HEADERS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exc is None or not self.response.prepared:
            return False
        if isinstance(exc, ClientGoneError) or not isinstance(exc, Exception):
            return False
        error = exc if isinstance(exc, ApiError) else errors.from_unexpected(exc)
        exchange_of(self._request).error_code = error.code or error.type
        await self.send(self._encode_error(error))
        return True

    async def start(
        self,
        encode_error: Callable[[ApiError], bytes] = encode_error,
        sign_of_life: bytes = sse.KEEP_ALIVE,
    ) -> None:
        """Commit to status 200.

        Args:
            encode_error: makes an error that comes from now on into the last events.
            sign_of_life: what is sent after a silence.
        """
        self._encode_error = encode_error
        self._sign_of_life = sign_of_life
        await self.response.prepare(self._request)

    async def send(self, data: bytes) -> None:
        """Send one or more events.

        Raises:
            ClientGoneError: nobody reads.
        """
        self._last_write = time.monotonic()
        transport = self._request.transport
        try:
            async with asyncio.timeout(self._write_timeout_seconds):
                await self.response.write(data)
        except TimeoutError:
            if transport is not None:
                # Closing would wait for the reader.
                transport.abort()
            raise ClientGoneError from None
        except ConnectionError:
            raise ClientGoneError from None

    async def keep_alive(self) -> None:
        """Send a sign of life after each silence; runs until cancelled."""
        while True:
            due = self._last_write + self._keep_alive_interval_seconds
            if (wait := due - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            else:
                await self.send(self._sign_of_life)
