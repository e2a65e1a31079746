"""POST /tokenize and /detokenize."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace_gateway.concurrency import first_error
from headrace_gateway.openai.tokenization import (
    Detokenized,
    Tokenized,
    detokenize_json_path,
    parse_detokenize_request,
    parse_tokenize_request,
)
from headrace_gateway.routes.body import json_response, read_object
from headrace_gateway.routes.call_context import call_context

if TYPE_CHECKING:
    from aiohttp import web

    from headrace_gateway.gateway import Gateway


class Tokenization:
    """Turns text into tokens and tokens into text."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def tokenize(self, request: web.Request) -> web.Response:
        """Return the tokens of a text or a chat, and how many would fit."""
        gateway = self._gateway
        body = await read_object(request, gateway, parse_tokenize_request)
        context = call_context(request, gateway.config, body.json_path)
        with first_error():
            async with asyncio.TaskGroup() as tasks:
                tokens = tasks.create_task(gateway.upstream.tokenize(body.message, context))
                model = tasks.create_task(gateway.upstream.get_model(body.message.model, context))
        token_ids = list(tokens.result().token_ids)
        return json_response(Tokenized(len(token_ids), model.result().context_length, token_ids))

    async def detokenize(self, request: web.Request) -> web.Response:
        """Return the text of tokens."""
        gateway = self._gateway
        body = await read_object(request, gateway, parse_detokenize_request)
        context = call_context(request, gateway.config, detokenize_json_path)
        text = await gateway.upstream.detokenize(body, context)
        return json_response(Detokenized(text, text))
