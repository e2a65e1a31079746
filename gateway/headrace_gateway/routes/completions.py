"""POST /v1/completions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.v1 import inference_service_pb2 as pb
from headrace_gateway.concurrency import all_of
from headrace_gateway.exchange import exchange_of
from headrace_gateway.openai.answer import TokenCounts
from headrace_gateway.openai.completion_choices import (
    PromptChoices,
    PromptView,
    require_bounded_echo,
)
from headrace_gateway.openai.completion_request import CompletionRequest, parse_completion_request
from headrace_gateway.openai.completion_response import CompletionChunks, completion
from headrace_gateway.openai.whole_choices import WholeChoices
from headrace_gateway.routes.body import json_response, read_object
from headrace_gateway.routes.call_context import call_context
from headrace_gateway.routes.generation import event_stream, identify, relay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aiohttp import web

    from headrace_gateway.gateway import Gateway
    from headrace_gateway.openai.answer import Identity
    from headrace_gateway.openai.prompts import Prompt
    from headrace_gateway.upstream import Answer, CallContext


class Completions:
    """Continues prompts."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Continue one or more prompts, whole or as a stream."""
        gateway = self._gateway
        body = await read_object(request, gateway, parse_completion_request)
        options = body.options
        context = call_context(request, gateway.config, body.json_path)
        async with event_stream(request, gateway.config) as events, gateway.in_flight.enter():
            views = await all_of(self._view(prompt, body, context) for prompt in body.prompts)
            require_bounded_echo(views, body.best_of)
            requests = body.to_generate_requests()
            async with gateway.upstream.generate_all(
                requests, context, is_held=not options.stream
            ) as answers:
                identity = identify("cmpl", options, answers[0])
                # Not before the server has found their number to be in its range.
                prompts = [
                    PromptChoices(view, index * body.best_of, body.shape)
                    for index, view in enumerate(views)
                ]
                if not options.stream:
                    return await _answer(request, identity, body, prompts, answers)
                chunks = CompletionChunks(identity, prompts, include_usage=options.include_usage)
                exchange_of(request).counts = await relay(events, answers, chunks)
        return events.response

    async def _view(
        self, prompt: Prompt, body: CompletionRequest, context: CallContext
    ) -> PromptView:
        """Return what the choices of a prompt tell of it."""
        upstream, model = self._gateway.upstream, body.options.model
        if isinstance(prompt, str):
            token_ids: tuple[int, ...] | None = None
            if body.return_token_ids:
                request = body.to_tokenize_request(prompt)
                token_ids = tuple((await upstream.tokenize(request, context)).token_ids)
            return PromptView(prompt if body.echo else "", token_ids)
        echo = ""
        if body.echo:
            echo = await upstream.detokenize(
                pb.DetokenizeRequest(model=model, token_ids=prompt, include_special_tokens=True),
                context,
            )
        return PromptView(echo, prompt if body.return_token_ids else None)


async def _answer(
    request: web.Request,
    identity: Identity,
    body: CompletionRequest,
    prompts: Sequence[PromptChoices],
    answers: Sequence[Answer],
) -> web.Response:
    num_returned = body.options.num_candidates
    wholes = [WholeChoices(prompt, body.shape, num_returned) for prompt in prompts]
    await all_of(_join(answer, whole) for answer, whole in zip(answers, wholes, strict=True))
    counts = sum((whole.counts for whole in wholes), TokenCounts())
    exchange_of(request).counts = counts
    choices = [
        choice
        for index, whole in enumerate(wholes)
        for choice in whole.choices(index * num_returned)
    ]
    return json_response(completion(identity, choices, counts))


async def _join(answer: Answer, whole: WholeChoices) -> None:
    async for response in answer:
        whole.add(response)
