"""One connection of a client: what aiohttp answers by itself, in OpenAI's shape and in time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from headrace_gateway import errors
from headrace_gateway.boundary import error_response, exchange_headers
from headrace_gateway.exchange import (
    CLIENT_CLOSED_REQUEST,
    AccessLogger,
    log_exchange,
    new_request_id,
)

if TYPE_CHECKING:
    from headrace_gateway.config import GatewayConfig
    from headrace_gateway.openai.api_error import ApiError

IDLE_TIMEOUT_SECONDS = 75.0
"""How long a connection may be without a request, or a request without its last header:
longer than the pools of clients and proxies keep one, so that they close it first."""

LINGERING_SECONDS = 2.0
"""How long the rest of a refused body is read, so that the client sees the refusal."""


class Connection(web.RequestHandler):
    """The protocol of aiohttp with limits and errors of our own.

    Args:
        server: of the runner.
        config: the limits.
    """

    __slots__ = ("_max_connections", "_write_timeout_seconds")

    def __init__(self, server: web.Server, config: GatewayConfig) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=IDLE_TIMEOUT_SECONDS,
            lingering_time=LINGERING_SECONDS,
            access_log_class=AccessLogger,
            # It would take a gzip that is cut off for a whole one.
            auto_decompress=False,
        )
        self._max_connections = config.max_connections
        self._write_timeout_seconds = config.write_timeout_seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Refuse the connection when there are too many."""
        super().connection_made(transport)
        assert self._manager is not None
        if len(self._manager.connections) > self._max_connections:
            cast("asyncio.Transport", transport).write(_too_many_connections())
            self.force_close()

    async def finish_response(
        self,
        request: web.BaseRequest,
        resp: web.StreamResponse,
        start_time: float | None,
    ) -> tuple[web.StreamResponse, bool]:
        """Send the rest of a response, within the time that the client has to read it."""
        if isinstance(resp, web.HTTPException):
            resp = error_response(request, errors.from_http_exception(resp))
        transport = self.transport
        try:
            async with asyncio.timeout(self._write_timeout_seconds):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            if transport is not None:
                transport.abort()
            log_exchange(request, CLIENT_CLOSED_REQUEST)
            return resp, True
        except asyncio.CancelledError:
            log_exchange(request, CLIENT_CLOSED_REQUEST)
            raise

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log a fault of ours; a body that is not what its headers say is the client's."""
        if not isinstance(kw.get("exc_info"), web.RequestPayloadError):
            super().log_exception(*args, **kw)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer bytes that are no HTTP, or a fault that passed the boundary."""
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun")
        response = error_response(request, _error_of(status, exc))
        response.headers.update(exchange_headers(request))
        response.force_close()
        return response


def _error_of(status: int, exc: BaseException | None) -> ApiError:
    if status < 500:
        return errors.malformed_http(status)
    return errors.from_unexpected(exc or RuntimeError("no exception was given"))


def _too_many_connections() -> bytes:
    error = errors.too_many_connections()
    body = error.body()
    headers = {
        **error.response_headers(),
        "x-request-id": new_request_id(),
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body
