"""The responses of /v1/chat/completions: whole, or in chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from headrace_gateway.openai.answer import (
    Identity,
    TokenCounts,
    Usage,
    WholeAnswer,
    WholeCandidate,
    finish_reason,
)
from headrace_gateway.openai.logprobs import ChoiceLogprobs, choice_logprobs
from headrace_gateway.openai.tool_calls import ToolCall, ToolCallDelta, tool_call, tool_call_deltas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.v1 import inference_service_pb2


class Message(msgspec.Struct, frozen=True, tag_field="role", tag="assistant"):
    """What the model said; its content is null where that is nothing but calls.

    Reasoning has the name that most clients know, and the one that vLLM has now.
    """

    content: str | None
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET
    reasoning: str | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class Choice(msgspec.Struct, frozen=True):
    """One answer, of as many as were asked for."""

    index: int
    message: Message
    finish_reason: str
    logprobs: ChoiceLogprobs | None = None


class ChatCompletion(msgspec.Struct, frozen=True, tag_field="object", tag="chat.completion"):
    """A whole answer."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: Usage


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The new piece of a message."""

    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChunkChoice(msgspec.Struct, frozen=True):
    """The new piece of one answer."""

    index: int
    delta: Delta
    finish_reason: str | None = None
    logprobs: ChoiceLogprobs | None = None


class ChatCompletionChunk(
    msgspec.Struct, frozen=True, tag_field="object", tag="chat.completion.chunk"
):
    """One event of a stream. `usage` is null but for the last, or not there at all."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET


def chat_completion(identity: Identity, answer: WholeAnswer) -> ChatCompletion:
    """Return the response with a whole answer."""
    choices = [
        Choice(
            index,
            _message(candidate),
            candidate.finish_reason,
            choice_logprobs(candidate.logprobs),
        )
        for index, candidate in enumerate(answer.candidates)
    ]
    usage = answer.counts.usage()
    return ChatCompletion(identity.id, identity.created, identity.model, choices, usage)


class ChatChunks:
    """Makes the chunks of a streamed chat.

    Args:
        identity: what all chunks share.
        num_candidates: how many choices there are.
        include_usage: whether the stream ends with the token counts.
    """

    def __init__(self, identity: Identity, *, num_candidates: int = 1, include_usage: bool) -> None:
        self._identity = identity
        self._num_candidates = num_candidates
        self._usage: UnsetType | None = None if include_usage else UNSET

    def opening(self, prompt_index: int) -> list[ChatCompletionChunk]:
        """Return the chunks that say who speaks, one for each choice."""
        return [
            self._chunk(ChunkChoice(choice, Delta(role="assistant", content="")))
            for choice in range(self._num_candidates)
        ]

    def chunks(
        self, prompt_index: int, response: inference_service_pb2.GenerateResponse
    ) -> list[ChatCompletionChunk]:
        """Return the chunks of a response: of each choice what is new, then its end.

        Log probabilities do not wait for text that is held back.
        """
        chunks = []
        for delta in response.deltas:
            index = delta.candidate_index  # there is one prompt
            logprobs = choice_logprobs(delta.logprobs)
            for piece in _pieces(delta, has_logprobs=logprobs is not None):
                told = logprobs if piece.content is not None else None
                chunks.append(self._chunk(ChunkChoice(index, piece, logprobs=told)))
            if delta.HasField("finish"):
                reason = finish_reason(delta.finish.reason)
                chunks.append(self._chunk(ChunkChoice(index, Delta(), reason)))
        return chunks

    def closing(self, counts: TokenCounts) -> list[ChatCompletionChunk]:
        """Return the chunk with the token counts, where it was asked for."""
        if self._usage is UNSET:
            return []
        it = self._identity
        return [ChatCompletionChunk(it.id, it.created, it.model, [], counts.usage())]

    def _chunk(self, choice: ChunkChoice) -> ChatCompletionChunk:
        it = self._identity
        return ChatCompletionChunk(it.id, it.created, it.model, [choice], self._usage)


def _message(candidate: WholeCandidate) -> Message:
    calls = [tool_call(call) for call in candidate.tool_calls]
    reasoning = candidate.reasoning or UNSET
    return Message(
        content=candidate.text if candidate.text or not calls else None,
        reasoning_content=reasoning,
        reasoning=reasoning,
        tool_calls=calls or UNSET,
    )


def _pieces(delta: inference_service_pb2.CandidateDelta, *, has_logprobs: bool) -> Iterator[Delta]:
    """Yield what a delta tells, kind by kind; one with log probabilities has a content."""
    if delta.reasoning_text:
        yield Delta(reasoning_content=delta.reasoning_text, reasoning=delta.reasoning_text)
    if delta.text or has_logprobs:
        yield Delta(content=delta.text)
    for message in delta.tool_calls:
        for piece in tool_call_deltas(message):
            yield Delta(tool_calls=[piece])
