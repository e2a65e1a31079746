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
    stop_reason,
)
from headrace_gateway.openai.logprobs import ChoiceLogprobs, choice_logprobs
from headrace_gateway.openai.prompt_logprobs import PromptLogprob, prompt_logprobs
from headrace_gateway.openai.tool_calls import ToolCall, ToolCallDelta, tool_call, tool_call_deltas

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    """One answer, of as many as were asked for; `stop_reason` is the stop that ended it."""

    index: int
    message: Message
    finish_reason: str
    logprobs: ChoiceLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET


class ChatCompletion(msgspec.Struct, frozen=True, tag_field="object", tag="chat.completion"):
    """A whole answer; what is told of the prompt is there where it was asked for."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    prompt_logprobs: list[dict[int, PromptLogprob] | None] | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET


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
    token_ids: list[int] | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET


class ChatCompletionChunk(
    msgspec.Struct, frozen=True, tag_field="object", tag="chat.completion.chunk"
):
    """One event of a stream. `usage` is null but for the last, or not there at all."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET


def chat_completion(
    identity: Identity, answer: WholeAnswer, prompt_token_ids: Sequence[int] | None = None
) -> ChatCompletion:
    """Return the response with a whole answer.

    Args:
        identity: of the response.
        answer: to tell.
        prompt_token_ids: the tokens of the prompt; None tells no token ids at all.
    """
    tells_ids = prompt_token_ids is not None
    choices = [
        Choice(
            index,
            _message(candidate),
            candidate.finish_reason,
            choice_logprobs(candidate.logprobs),
            list(candidate.token_ids) if tells_ids else UNSET,
            UNSET if candidate.stop_reason is None else candidate.stop_reason,
        )
        for index, candidate in enumerate(answer.candidates)
    ]
    return ChatCompletion(
        identity.id,
        identity.created,
        identity.model,
        choices,
        answer.counts.usage(),
        prompt_logprobs(answer.prompt_logprobs) if answer.prompt_logprobs else UNSET,
        UNSET if prompt_token_ids is None else list(prompt_token_ids),
    )


class ChatChunks:
    """Makes the chunks of a streamed chat.

    Args:
        identity: what all chunks share.
        num_candidates: how many choices there are.
        include_usage: whether the stream ends with the token counts.
        prompt_token_ids: as in `chat_completion`; the first chunk has them.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        num_candidates: int = 1,
        include_usage: bool,
        prompt_token_ids: Sequence[int] | None = None,
    ) -> None:
        self._identity = identity
        self._num_candidates = num_candidates
        self._prompt_token_ids = prompt_token_ids
        self._usage: UnsetType | None = None if include_usage else UNSET

    def opening(self, prompt_index: int) -> list[ChatCompletionChunk]:
        """Return the chunks that say who speaks, one for each choice."""
        first, *others = [
            self._chunk(ChunkChoice(choice, Delta(role="assistant", content="")))
            for choice in range(self._num_candidates)
        ]
        if self._prompt_token_ids is not None:
            told = list(self._prompt_token_ids)
            first = msgspec.structs.replace(first, prompt_token_ids=told)
        return [first, *others]

    def chunks(
        self, prompt_index: int, response: inference_service_pb2.GenerateResponse
    ) -> list[ChatCompletionChunk]:
        """Return the chunks of a response: of each choice what is new, then its end.

        What is told of tokens does not wait for text that is held back.
        """
        chunks = []
        for delta in response.deltas:
            index = delta.candidate_index  # there is one prompt
            logprobs, token_ids = choice_logprobs(delta.logprobs), self._token_ids(delta)
            for piece in _pieces(delta, tells_tokens=bool(logprobs or token_ids)):
                choice = ChunkChoice(index, piece)
                if piece.content is not None:
                    choice = ChunkChoice(index, piece, None, logprobs, token_ids)
                chunks.append(self._chunk(choice))
            if delta.HasField("finish"):
                reason, stop = finish_reason(delta.finish.reason), stop_reason(delta.finish)
                end = ChunkChoice(
                    index, Delta(), reason, stop_reason=UNSET if stop is None else stop
                )
                chunks.append(self._chunk(end))
        return chunks

    def closing(self, counts: TokenCounts) -> list[ChatCompletionChunk]:
        """Return the chunk with the token counts, where it was asked for."""
        if self._usage is UNSET:
            return []
        it = self._identity
        return [ChatCompletionChunk(it.id, it.created, it.model, [], counts.usage())]

    def _token_ids(self, delta: inference_service_pb2.CandidateDelta) -> list[int] | UnsetType:
        if self._prompt_token_ids is None or not delta.token_ids:
            return UNSET
        return list(delta.token_ids)

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


def _pieces(delta: inference_service_pb2.CandidateDelta, *, tells_tokens: bool) -> Iterator[Delta]:
    """Yield what a delta tells, kind by kind; one that tells of tokens has a content."""
    if delta.reasoning_text:
        yield Delta(reasoning_content=delta.reasoning_text, reasoning=delta.reasoning_text)
    if delta.text or tells_tokens:
        yield Delta(content=delta.text)
    for message in delta.tool_calls:
        for piece in tool_call_deltas(message):
            yield Delta(tool_calls=[piece])
