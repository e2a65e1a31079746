"""POST /v1/chat/completions."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.chat_request import ChatCompletionRequest, parse_chat_request
from headrace_gateway.openai.chat_response import ChatChunks, chat_completion
from headrace_gateway.routes.body import json_response, read_object
from headrace_gateway.routes.call_context import call_context
from headrace_gateway.routes.generation import (
    collect,
    event_stream,
    identify,
    relay,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

    from headrace_gateway.gateway import Gateway
    from headrace_gateway.upstream import Answer, CallContext


class ChatCompletions:
    """Answers chats."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat, whole or as a stream."""
        gateway = self._gateway
        chat = parse_chat_request(await read_object(request, gateway.config))
        options = chat.options
        context = call_context(request, gateway.config, options.json_path)
        async with (
            event_stream(request, gateway.config) as events,
            gateway.in_flight.enter(),
            self._admitted(chat, context) as answer,
        ):
            identity = identify("chatcmpl", options, answer)
            if not options.stream:
                [whole] = await collect([answer], options)
                exchange_of(request).counts = whole.counts
                return json_response(chat_completion(identity, whole))
            chunks = ChatChunks(
                identity,
                num_candidates=options.num_candidates,
                include_usage=options.include_usage,
            )
            exchange_of(request).counts = await relay(events, [answer], chunks)
        return events.response

    @asynccontextmanager
    async def _admitted(
        self, chat: ChatCompletionRequest, context: CallContext
    ) -> AsyncIterator[Answer]:
        generate_all = self._gateway.upstream.generate_all
        request = chat.to_generate_request()
        async with AsyncExitStack() as stack:
            try:
                [answer] = await stack.enter_async_context(generate_all([request], context))
            except ApiError as error:
                if not _exceeds_context(error, chat):
                    raise
                # To the contract the number is exact, in a chat it is an upper bound: the
                # server fills the room that the prompt leaves when none is given.
                request.stopping.ClearField("max_output_tokens")
                [answer] = await stack.enter_async_context(generate_all([request], context))
            yield answer


def _exceeds_context(error: ApiError, chat: ChatCompletionRequest) -> bool:
    return error.code == "context_length_exceeded" and error.param == chat.options.max_tokens_field
