"""The responses of /v1/completions: whole, or in chunks of the same shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from headrace_gateway.openai.answer import Identity, TokenCounts, Usage
from headrace_gateway.openai.completion_choices import CompletionChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.v1 import inference_service_pb2
    from headrace_gateway.openai.completion_choices import PromptChoices


class Completion(msgspec.Struct, frozen=True, tag_field="object", tag="text_completion"):
    """Whole answers, or one event of a stream."""

    id: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET


def completion(
    identity: Identity, choices: list[CompletionChoice], counts: TokenCounts
) -> Completion:
    """Return the response with whole choices."""
    return Completion(identity.id, identity.created, identity.model, choices, counts.usage())


class CompletionChunks:
    """Makes the chunks of streamed completions.

    Args:
        identity: what all chunks share.
        prompts: makes the pieces of the choices of each prompt.
        include_usage: whether the stream ends with the token counts.
    """

    def __init__(
        self, identity: Identity, prompts: Sequence[PromptChoices], *, include_usage: bool
    ) -> None:
        self._identity = identity
        self._prompts = prompts
        self._usage: UnsetType | None = None if include_usage else UNSET

    def opening(self, prompt_index: int) -> list[Completion]:
        """Return the chunks that tell of the prompt, for each choice."""
        return self._chunks(self._prompts[prompt_index].opening())

    def chunks(
        self, prompt_index: int, response: inference_service_pb2.GenerateResponse
    ) -> list[Completion]:
        """Return the chunks of a response: of each choice its new piece, then its end."""
        return self._chunks(self._prompts[prompt_index].pieces(response))

    def closing(self, counts: TokenCounts) -> list[Completion]:
        """Return the chunk with the token counts, where it was asked for."""
        if self._usage is UNSET:
            return []
        it = self._identity
        return [Completion(it.id, it.created, it.model, [], counts.usage())]

    def _chunks(self, pieces: Sequence[CompletionChoice]) -> list[Completion]:
        it = self._identity
        return [Completion(it.id, it.created, it.model, [piece], self._usage) for piece in pieces]
