"""POST /v1/responses, and what is asked of stored ones: nothing is stored."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, NoReturn

import msgspec

from headrace_gateway import sse
from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.answer import Identity, TokenCounts, token_counts
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.responses.response_events import ID_PREFIX, ResponseEvents
from headrace_gateway.responses.response_request import parse_response_request
from headrace_gateway.routes.admission import admitted
from headrace_gateway.routes.body import json_response, read_object
from headrace_gateway.routes.call_context import call_context
from headrace_gateway.routes.generation import Framing, event_stream, relay

if TYPE_CHECKING:
    from aiohttp import web

    from headrace_gateway.gateway import Gateway
    from headrace_gateway.responses.response import Response
    from headrace_gateway.upstream import Answer


class Responses:
    """Answers conversations in the form of OpenAI's newer API."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Answer a conversation, whole or as a stream."""
        gateway = self._gateway
        asked = await read_object(request, gateway, parse_response_request)
        options = asked.options
        context = call_context(request, gateway.config, asked.json_path)
        async with (
            event_stream(request, gateway.config) as events,
            gateway.in_flight.enter(),
            admitted(
                gateway.upstream,
                asked.to_generate_request(),
                context,
                options.max_tokens_field,
                # The last event of a stream repeats all of it.
                is_held=True,
            ) as answer,
        ):
            identity = _identify(options.model or answer.model)
            made = ResponseEvents(identity, asked.settings)
            exchange = exchange_of(request)
            if not options.stream:
                whole, exchange.counts = await _collect(answer, made)
                return json_response(whole)
            exchange.counts = await relay(events, [answer], made, _framing(made))
        return events.response

    async def refuse_stored(self, request: web.Request) -> NoReturn:
        """Say that there is no such response.

        Raises:
            ApiError: 404, always.
        """
        raise ApiError(
            404,
            "There is no such response: responses are not stored. Keep what "
            "POST /v1/responses answers.",
            code="not_found",
            param="id",
        )


async def _collect(answer: Answer, made: ResponseEvents) -> tuple[Response, TokenCounts]:
    counts = TokenCounts()
    async for message in answer:
        made.chunks(0, message)
        counts += token_counts(message)
    return made.whole(counts), counts


def _identify(model: str) -> Identity:
    return Identity(f"{ID_PREFIX}{uuid.uuid4().hex}", int(time.time()), model)


def _framing(made: ResponseEvents) -> Framing:
    return Framing(
        encode=_encode,
        encode_error=lambda error: b"".join(_encode(event) for event in made.failure(error)),
        ending=b"",
    )


def _encode(event: msgspec.Struct) -> bytes:
    return sse.encode(msgspec.json.encode(event), str(event.__struct_config__.tag))
