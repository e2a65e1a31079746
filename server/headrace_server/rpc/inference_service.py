"""InferenceService: the handlers of Generate, Tokenize and Detokenize."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.v1 import inference_service_pb2 as pb
from headrace_server.errors import DuplicateRequestIdError
from headrace_server.rpc.convert.generation import to_generation_request
from headrace_server.rpc.convert.response import to_responses
from headrace_server.rpc.convert.tokenization import to_detokenize_ids, to_tokenize_prompt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.rpc.availability import Availability
    from headrace_server.rpc.calls import Call
    from headrace_server.rpc.model_service import ServedNames
    from headrace_server.text.delta import AnswerDelta
    from headrace_server.text.pipeline import TextPipeline


# Names need not be ASCII, which only binary metadata can carry.
MODEL_HEADER: Final = "x-headrace-model-bin"


class InferenceService:
    """The handlers of InferenceService.

    Args:
        names: of the served model.
        availability: has the model once it is loaded.
        pipeline: answers.
    """

    def __init__(
        self, names: ServedNames, availability: Availability, pipeline: TextPipeline
    ) -> None:
        self._names = names
        self._availability = availability
        self._pipeline = pipeline
        self._labels = _LiveLabels()

    async def generate(self, call: Call, message: pb.GenerateRequest) -> None:
        """Stream an answer. Leaving in any way stops its work in the engine."""
        request = to_generation_request(message, call.id, call.caller.name, call.caller.key_name)
        self._names.require(message.model)
        self._availability.require_model()
        with self._labels.hold(call, message.request_id):
            async with self._pipeline.generate(request) as answer:
                call.prompt_token_count = answer.prompt_token_count
                call.output_token_count = 0
                await call.accept((MODEL_HEADER, self._names.name.encode()))
                async for delta in answer:
                    _note(call, delta)
                    for response in to_responses(delta, want_token_ids=request.want_token_ids):
                        await call.write(response)

    async def tokenize(self, call: Call, message: pb.TokenizeRequest) -> pb.TokenizeResponse:
        """Turn a prompt into token ids."""
        prompt = to_tokenize_prompt(message)
        self._names.require(message.model)
        self._availability.require_model()
        tokenized = await self._pipeline.tokenize(prompt)
        call.prompt_token_count = len(tokenized.token_ids)
        return pb.TokenizeResponse(
            token_ids=tokenized.token_ids,
            token_count=len(tokenized.token_ids),
            text=tokenized.text or "",
        )

    async def detokenize(self, call: Call, message: pb.DetokenizeRequest) -> pb.DetokenizeResponse:
        """Turn token ids into text."""
        token_ids = to_detokenize_ids(message)
        self._names.require(message.model)
        self._availability.require_model()
        text = await self._pipeline.detokenize(token_ids, message.include_special_tokens)
        return pb.DetokenizeResponse(text=text)


class _LiveLabels:
    """The request_ids being answered, each for its caller.

    This catches a client that sends a request twice, and lets nobody block the labels of others.
    """

    def __init__(self) -> None:
        self._live: set[tuple[str, str]] = set()

    @contextmanager
    def hold(self, call: Call, label: str) -> Iterator[None]:
        """Hold a label for the time of the body; the empty one is free for all."""
        if not label:
            yield
            return
        call.label = label
        key = (call.caller.name, label)
        if key in self._live:
            raise DuplicateRequestIdError(
                "A request with this request_id is being answered for the same caller; "
                "choose another or wait for its end."
            )
        self._live.add(key)
        try:
            yield
        finally:
            self._live.discard(key)


def _note(call: Call, delta: AnswerDelta) -> None:
    """Keep what the log tells, also of a call that ends early."""
    if delta.prompt is not None:
        call.cached_token_count = delta.prompt.cached_token_count
    num_tokens = sum(len(candidate.token_ids) for candidate in delta.candidates)
    if call.first_token_seconds is None and num_tokens:
        call.first_token_seconds = call.age_seconds
    if call.output_token_count is not None:
        call.output_token_count += num_tokens
    call.timing = delta.timing
