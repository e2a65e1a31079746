"""The responses of /v1/completions: whole, or in chunks of the same shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from headrace_gateway.openai.answer import Identity, TokenCounts, Usage, WholeAnswer, finish_reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.v1 import inference_service_pb2


class Choice(msgspec.Struct, frozen=True):
    """The text of an answer, or its new piece. The answers to a prompt follow each other."""

    index: int
    text: str
    finish_reason: str | None = None
    logprobs: None = None


class Completion(msgspec.Struct, frozen=True, tag_field="object", tag="text_completion"):
    """Whole answers, or one event of a stream."""

    id: str
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | UnsetType | None = UNSET


def completion(
    identity: Identity, echoes: Sequence[str], answers: Sequence[WholeAnswer]
) -> Completion:
    """Return the response with the whole answers, each after its echo."""
    candidates = [
        (echo, candidate)
        for echo, answer in zip(echoes, answers, strict=True)
        for candidate in answer.candidates
    ]
    choices = [
        Choice(index, echo + candidate.text, candidate.finish_reason)
        for index, (echo, candidate) in enumerate(candidates)
    ]
    usage = sum((answer.counts for answer in answers), TokenCounts()).usage()
    return Completion(identity.id, identity.created, identity.model, choices, usage)


class CompletionChunks:
    """Makes the chunks of streamed completions.

    Args:
        identity: what all chunks share.
        echoes: the text that comes before the answers to each prompt.
        num_candidates: how many choices each prompt has.
        include_usage: whether the stream ends with the token counts.
    """

    def __init__(
        self,
        identity: Identity,
        echoes: Sequence[str],
        *,
        num_candidates: int = 1,
        include_usage: bool,
    ) -> None:
        self._identity = identity
        self._echoes = echoes
        self._num_candidates = num_candidates
        self._usage: UnsetType | None = None if include_usage else UNSET

    def opening(self, prompt_index: int) -> list[Completion]:
        """Return the chunks with the echo, where there is one, for each choice."""
        echo = self._echoes[prompt_index]
        first = prompt_index * self._num_candidates
        indices = range(first, first + self._num_candidates) if echo else ()
        return [self._chunk(Choice(index, echo)) for index in indices]

    def chunks(
        self, prompt_index: int, response: inference_service_pb2.GenerateResponse
    ) -> list[Completion]:
        """Return the chunks of a response: of each choice its new text, then its end."""
        chunks = []
        for delta in response.deltas:
            index = prompt_index * self._num_candidates + delta.candidate_index
            if delta.text:
                chunks.append(self._chunk(Choice(index, delta.text)))
            if delta.HasField("finish"):
                reason = finish_reason(delta.finish.reason)
                chunks.append(self._chunk(Choice(index, "", reason)))
        return chunks

    def closing(self, counts: TokenCounts) -> list[Completion]:
        """Return the chunk with the token counts, where it was asked for."""
        if self._usage is UNSET:
            return []
        it = self._identity
        return [Completion(it.id, it.created, it.model, [], counts.usage())]

    def _chunk(self, choice: Choice) -> Completion:
        it = self._identity
        return Completion(it.id, it.created, it.model, [choice], self._usage)
