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
    """The text of one prompt's answer, or its new piece."""

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
    choices = [
        Choice(index, echo + answer.text, answer.finish_reason)
        for index, (echo, answer) in enumerate(zip(echoes, answers, strict=True))
    ]
    usage = sum((answer.counts for answer in answers), TokenCounts()).usage()
    return Completion(identity.id, identity.created, identity.model, choices, usage)


class CompletionChunks:
    """Makes the chunks of streamed completions.

    Args:
        identity: what all chunks share.
        echoes: the text that comes before the answer of each prompt.
        include_usage: whether the stream ends with the token counts.
    """

    def __init__(self, identity: Identity, echoes: Sequence[str], *, include_usage: bool) -> None:
        self._identity = identity
        self._echoes = echoes
        self._usage: UnsetType | None = None if include_usage else UNSET

    def opening(self, index: int) -> list[Completion]:
        """Return the chunk with the echo, where there is one."""
        echo = self._echoes[index]
        return [self._chunk(Choice(index, echo))] if echo else []

    def chunks(
        self, index: int, response: inference_service_pb2.GenerateResponse
    ) -> list[Completion]:
        """Return the chunks of a response: new text, then the end."""
        chunks = []
        for delta in response.deltas:
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
