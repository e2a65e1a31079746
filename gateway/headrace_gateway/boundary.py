"""The boundary that every request passes: origin, key, errors, the headers of every response."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
from aiohttp import HttpVersion11, hdrs, web

from headrace_gateway import errors
from headrace_gateway.callers import identify
from headrace_gateway.cors import is_own_page
from headrace_gateway.dialects import dialect_of
from headrace_gateway.event_stream import ClientGoneError
from headrace_gateway.exchange import CLIENT_CLOSED_REQUEST, exchange_of, log_exchange
from headrace_gateway.openai.api_error import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace_gateway.api_keys import ApiKeys
    from headrace_gateway.callers import Caller
    from headrace_gateway.cors import CorsPolicy

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Boundary:
    """Lets requests in, and turns whatever a handler raises into an answer.

    Args:
        cors: which web pages may use the API.
        keys: of the callers that are let in; None lets all in.
    """

    def __init__(self, cors: CorsPolicy, keys: ApiKeys | None = None) -> None:
        self._cors = cors
        self._keys = keys
        self._open_resources: set[web.AbstractResource] = set()

    def install(self, app: web.Application) -> None:
        """Put the boundary around all handlers of an application."""
        app.middlewares.append(self._handle)
        app.on_response_prepare.append(self._add_headers)

    def open(self, route: web.AbstractRoute) -> None:
        """Let everybody in on the path of a route; any other asks for a key."""
        assert route.resource is not None
        self._open_resources.add(route.resource)

    async def expect(self, request: web.Request) -> None:
        """Ask for the body of a request that waits to be asked, if it will be read."""
        try:
            self._let_in(request)
        except ApiError:
            return  # which the handling of the request says
        if request.version < HttpVersion11:
            return
        if request.headers[hdrs.EXPECT].lower() != "100-continue":
            raise web.HTTPExpectationFailed
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the response has not begun

    @web.middleware
    async def _handle(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        exchange = exchange_of(request)
        try:
            if _is_preflight(request):
                return web.Response(
                    status=204, headers=self._cors.preflight_headers(request.headers)
                )
            exchange.caller = self._let_in(request)
            return await handler(request)
        except ApiError as error:
            return error_response(request, error)
        except web.HTTPException:
            raise  # the connection answers these, since some never come by here
        except ClientGoneError:
            return web.Response(status=CLIENT_CLOSED_REQUEST)  # nobody will see it
        except asyncio.CancelledError:
            log_exchange(request, CLIENT_CLOSED_REQUEST)
            raise
        except Exception as error:  # noqa: BLE001 - the one boundary that makes it a status
            return error_response(request, errors.from_unexpected(error))

    def _let_in(self, request: web.Request) -> Caller:
        self._require_allowed_origin(request)
        is_open = request.match_info.route.resource in self._open_resources
        return identify(request.headers, request.remote, self._keys, is_open=is_open)

    def _require_allowed_origin(self, request: web.Request) -> None:
        # A page whose name was made to point at this machine needs no preflight.
        origin = request.headers.get(hdrs.ORIGIN)
        if request.method != hdrs.METH_POST or not origin:
            return
        if not self._cors.allows(origin) and not is_own_page(origin, request.host):
            raise ApiError(
                403,
                "Web pages of this origin may not use this gateway; --cors-origins allows them.",
                code="origin_not_allowed",
            )

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(self._cors.response_headers(request.headers.get(hdrs.ORIGIN)))
        response.headers.update(exchange_headers(request))


def exchange_headers(request: web.BaseRequest) -> dict[str, str]:
    """Return the headers that every response has."""
    exchange = exchange_of(request)
    return {
        "Server": "headrace",
        **dict.fromkeys(dialect_of(request.path).id_headers, exchange.request_id),
        "openai-processing-ms": str(exchange.elapsed_milliseconds()),
    }


def error_response(request: web.BaseRequest, error: ApiError) -> web.Response:
    """Return the response for an error in the shape of its path."""
    exchange, dialect = exchange_of(request), dialect_of(request.path)
    exchange.error_code = error.code or error.type
    return web.Response(
        status=dialect.error_status(error),
        body=msgspec.json.encode(dialect.error_body(error, exchange.request_id)),
        content_type="application/json",
        headers=error.response_headers(),
    )


def _is_preflight(request: web.Request) -> bool:
    return (
        request.method == hdrs.METH_OPTIONS
        and hdrs.ORIGIN in request.headers
        and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers
    )
