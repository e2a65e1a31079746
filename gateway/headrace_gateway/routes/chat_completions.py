"""POST /v1/chat/completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.chat_request import parse_chat_request
from headrace_gateway.openai.chat_response import ChatChunks, chat_completion
from headrace_gateway.routes.admission import admitted
from headrace_gateway.routes.body import json_response, read_object
from headrace_gateway.routes.call_context import call_context
from headrace_gateway.routes.generation import (
    collect,
    event_stream,
    identify,
    relay,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from headrace_gateway.gateway import Gateway
    from headrace_gateway.openai.chat_request import ChatCompletionRequest
    from headrace_gateway.upstream import CallContext


class ChatCompletions:
    """Answers chats."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat, whole or as a stream."""
        gateway = self._gateway
        chat = await read_object(request, gateway, parse_chat_request)
        options = chat.options
        context = call_context(request, gateway.config, options.json_path)
        async with event_stream(request, gateway.config) as events, gateway.in_flight.enter():
            prompt_token_ids = await self._prompt_token_ids(chat, context)
            generate = chat.to_generate_request()
            async with admitted(
                gateway.upstream,
                generate,
                context,
                options.max_tokens_field,
                is_held=not options.stream,
            ) as answer:
                identity = identify("chatcmpl", options, answer)
                if not options.stream:
                    [whole] = await collect([answer], options)
                    exchange_of(request).counts = whole.counts
                    return json_response(chat_completion(identity, whole, prompt_token_ids))
                chunks = ChatChunks(
                    identity,
                    num_candidates=options.num_candidates,
                    include_usage=options.include_usage,
                    prompt_token_ids=prompt_token_ids,
                )
                exchange_of(request).counts = await relay(events, [answer], chunks)
        return events.response

    async def _prompt_token_ids(
        self, chat: ChatCompletionRequest, context: CallContext
    ) -> Sequence[int] | None:
        """Return the tokens of the prompt; None where nobody asked for token ids."""
        if not chat.return_token_ids:
            return None
        request = chat.to_tokenize_request()
        return (await self._gateway.upstream.tokenize(request, context)).token_ids
