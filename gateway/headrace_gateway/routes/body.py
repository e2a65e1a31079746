"""The JSON bodies: that of a request, read within its limits, and that of a response."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import msgspec
from aiohttp import hdrs, web

from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.json_body import parse_object
from headrace_gateway.routes.unpacking import unpack

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace_gateway.config import GatewayConfig
    from headrace_gateway.gateway import Gateway

_T = TypeVar("_T")

_ENCODINGS = ("", "identity", "gzip", "deflate")


async def read_object(
    request: web.Request, gateway: Gateway, parse: Callable[[dict[str, object]], _T]
) -> _T:
    """Return what `parse` makes of the JSON object in the body, in a thread where it is large.

    Raises:
        ApiError: 400, it is no JSON object; 408, it did not arrive in time; 413, it is too
            large; 415, it says that it is something else; or what `parse` raises.
    """
    _require_json(request)
    body = await _read(request, gateway.config)
    encoding, config = _encoding(request), gateway.config

    def read() -> _T:
        unpacked = unpack(body, encoding, config.max_body_bytes, lambda: _too_large(config))
        return parse(parse_object(unpacked))

    # A packed body is as large as it can be.
    num_bytes = len(body) if encoding in ("", "identity") else config.max_body_bytes
    return await gateway.large_bodies.run(num_bytes, read)


def json_response(body: msgspec.Struct) -> web.Response:
    """Return a response with a JSON body."""
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


async def _read(request: web.Request, config: GatewayConfig) -> bytes:
    if (request.content_length or 0) > config.max_body_bytes:
        raise _too_large(config)
    try:
        async with asyncio.timeout(config.body_timeout_seconds):
            return await request.read()
    except TimeoutError:
        raise ApiError(
            408,
            f"The body did not arrive within {config.body_timeout_seconds:g} s.",
            code="request_timeout",
            # What may still come would be taken for the next request.
            headers={"Connection": "close"},
        ) from None
    except web.HTTPRequestEntityTooLarge:
        raise _too_large(config) from None
    except web.RequestPayloadError:
        raise ApiError(400, "The body is not what its headers say.") from None


def _require_json(request: web.Request) -> None:
    # Anything else could be posted by any web page without asking first.
    if request.content_type != "application/json" or hdrs.CONTENT_TYPE not in request.headers:
        raise ApiError(
            415,
            "The body must be JSON: send the header Content-Type: application/json.",
            code="unsupported_media_type",
        )
    if (request.charset or "utf-8").lower() not in ("utf-8", "utf8"):
        raise ApiError(415, "The body must be in UTF-8.", code="unsupported_media_type")
    if _encoding(request) not in _ENCODINGS:
        raise ApiError(
            415,
            "The Content-Encoding must be gzip or deflate, or left out.",
            code="unsupported_content_encoding",
            headers={"Accept-Encoding": "gzip, deflate"},
        )


def _encoding(request: web.Request) -> str:
    return request.headers.get(hdrs.CONTENT_ENCODING, "").strip().lower()


def _too_large(config: GatewayConfig) -> ApiError:
    return ApiError(
        413,
        f"The body is larger than the {config.max_body_bytes} bytes that this gateway takes.",
        code="request_too_large",
    )
