"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import msgspec

from headrace_gateway import sse
from headrace_gateway.anthropic.api_error import error_body
from headrace_gateway.anthropic.events import Ping
from headrace_gateway.anthropic.message import TokenCount
from headrace_gateway.anthropic.message_events import MessageEvents
from headrace_gateway.anthropic.messages_request import (
    MAX_TOKENS,
    parse_count_request,
    parse_messages_request,
)
from headrace_gateway.anthropic.whole_message import WholeMessage
from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.answer import Identity, TokenCounts, token_counts
from headrace_gateway.routes.admission import admitted
from headrace_gateway.routes.body import json_response, read_object
from headrace_gateway.routes.call_context import call_context
from headrace_gateway.routes.generation import Framing, event_stream, relay

if TYPE_CHECKING:
    from aiohttp import web

    from headrace_gateway.anthropic.message import MessagesAnswer
    from headrace_gateway.gateway import Gateway
    from headrace_gateway.openai.api_error import ApiError
    from headrace_gateway.upstream import Answer


class Messages:
    """Answers conversations in Anthropic's dialect."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Answer a conversation, whole or as a stream."""
        gateway, exchange = self._gateway, exchange_of(request)
        asked = await read_object(request, gateway, parse_messages_request)
        context = call_context(request, gateway.config, asked.json_path)
        async with (
            event_stream(request, gateway.config) as events,
            gateway.in_flight.enter(),
            admitted(
                gateway.upstream,
                asked.to_generate_request(),
                context,
                MAX_TOKENS,
                is_held=not asked.stream,
            ) as answer,
        ):
            model = asked.model or answer.model
            made = MessageEvents(Identity(f"msg_{uuid.uuid4().hex}", int(time.time()), model))
            if not asked.stream:
                whole, exchange.counts = await _collect(answer, made)
                return json_response(whole)
            exchange.counts = await relay(events, [answer], made, _framing(exchange.request_id))
        return events.response

    async def count_tokens(self, request: web.Request) -> web.Response:
        """Return the number of tokens of a conversation, with its tools."""
        gateway = self._gateway
        asked = await read_object(request, gateway, parse_count_request)
        context = call_context(request, gateway.config, asked.json_path)
        tokens = await gateway.upstream.tokenize(asked.to_tokenize_request(), context)
        return json_response(TokenCount(tokens.token_count))


async def _collect(answer: Answer, made: MessageEvents) -> tuple[MessagesAnswer, TokenCounts]:
    """Read an answer to its end."""
    whole, counts = WholeMessage(), TokenCounts()
    async for response in answer:
        whole.add(made.chunks(0, response))
        counts += token_counts(response)
    whole.add(made.closing(counts))
    return whole.answer(), counts


def _framing(request_id: str) -> Framing:
    def encode_error(error: ApiError) -> bytes:
        return _encode(error_body(error, request_id))

    # The last event says itself that it is the last.
    return Framing(_encode, encode_error, ending=b"", keep_alive=_encode(Ping()))


def _encode(event: msgspec.Struct) -> bytes:
    """Return an event with a name, which is the type that its JSON has."""
    return sse.encode(msgspec.json.encode(event), str(event.__struct_config__.tag))
