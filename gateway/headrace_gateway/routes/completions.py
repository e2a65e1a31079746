"""POST /v1/completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.concurrency import all_of
from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.answer import TokenCounts
from headrace_gateway.openai.completion_request import CompletionRequest, parse_completion_request
from headrace_gateway.openai.completion_response import CompletionChunks, completion
from headrace_gateway.routes.body import json_response, read_object
from headrace_gateway.routes.call_context import call_context
from headrace_gateway.routes.generation import (
    collect,
    event_stream,
    identify,
    relay,
)

if TYPE_CHECKING:
    from aiohttp import web

    from headrace_gateway.gateway import Gateway
    from headrace_gateway.openai.prompts import Prompt
    from headrace_gateway.upstream import CallContext


class Completions:
    """Continues prompts."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Continue one or more prompts, whole or as a stream."""
        gateway = self._gateway
        body = parse_completion_request(await read_object(request, gateway.config))
        options = body.options
        context = call_context(request, gateway.config, options.json_path)
        async with event_stream(request, gateway.config) as events, gateway.in_flight.enter():
            echoes = await self._echoes(body, context)
            requests = body.to_generate_requests()
            async with gateway.upstream.generate_all(requests, context) as answers:
                identity = identify("cmpl", options, answers[0])
                if not options.stream:
                    wholes = await collect(answers, options)
                    counts = sum((whole.counts for whole in wholes), TokenCounts())
                    exchange_of(request).counts = counts
                    return json_response(completion(identity, echoes, wholes))
                chunks = CompletionChunks(
                    identity,
                    echoes,
                    num_candidates=options.num_candidates,
                    include_usage=options.include_usage,
                )
                exchange_of(request).counts = await relay(events, answers, chunks)
        return events.response

    async def _echoes(self, body: CompletionRequest, context: CallContext) -> list[str]:
        if not body.echo:
            return [""] * len(body.prompts)
        return await all_of(
            self._text_of(prompt, body.options.model, context) for prompt in body.prompts
        )

    async def _text_of(self, prompt: Prompt, model: str, context: CallContext) -> str:
        if isinstance(prompt, str):
            return prompt
        return await self._gateway.upstream.detokenize(model, prompt, context)
