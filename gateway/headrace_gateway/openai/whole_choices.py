"""The choices of a completion, joined from their pieces; the best of more where that is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from headrace_gateway.openai.answer import TokenCounts, token_counts
from headrace_gateway.openai.completion_choices import CompletionChoice, PromptChoices, Shape
from headrace_gateway.openai.completion_logprobs import CompletionLogprobs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import inference_service_pb2


class WholeChoices:
    """Joins the pieces of all choices of one prompt.

    Args:
        choices: makes the pieces.
        shape: what the choices tell.
        num_returned: how many of them are returned: those whose tokens were the likeliest on
            the average, the likeliest first, where that is not all.
    """

    def __init__(self, choices: PromptChoices, shape: Shape, num_returned: int) -> None:
        self._choices = choices
        self._shape = shape
        self._num_returned = num_returned
        self._wholes: dict[int, CompletionChoice] = {}
        self._scores = [_Score() for _ in range(shape.num_choices)]
        self.counts = TokenCounts()
        self._add_pieces(choices.opening())

    def add(self, response: inference_service_pb2.GenerateResponse) -> None:
        """Add what a response tells."""
        self._add_pieces(self._choices.pieces(response))
        self.counts += token_counts(response)
        for delta in response.deltas:
            for told in delta.logprobs:
                self._scores[delta.candidate_index].add(told.logprob)

    def choices(self, first_index: int) -> list[CompletionChoice]:
        """Return the choices, numbered from `first_index`."""
        wholes = [self._wholes[index] for index in sorted(self._wholes)]
        if self._num_returned < len(wholes):
            ranked = sorted(zip(self._scores, wholes, strict=True), key=lambda pair: -pair[0].mean)
            wholes = [whole for _, whole in ranked[: self._num_returned]]
        logprobs = CompletionLogprobs() if self._shape.logprobs else None
        return [
            msgspec.structs.replace(whole, index=index, logprobs=whole.logprobs or logprobs)
            for index, whole in enumerate(wholes, first_index)
        ]

    def _add_pieces(self, pieces: Iterable[CompletionChoice]) -> None:
        for piece in pieces:
            before = self._wholes.get(piece.index)
            self._wholes[piece.index] = piece if before is None else _join(before, piece)


@dataclass(slots=True)
class _Score:
    """How likely the tokens of a choice were."""

    total: float = 0.0
    num_tokens: int = 0

    def add(self, logprob: float) -> None:
        """Count a token."""
        self.total += logprob
        self.num_tokens += 1

    @property
    def mean(self) -> float:
        """The log probability per token."""
        return self.total / max(self.num_tokens, 1)


def _join(first: CompletionChoice, second: CompletionChoice) -> CompletionChoice:
    logprobs = [each.logprobs for each in (first, second) if each.logprobs is not None]
    token_ids = first.token_ids
    if token_ids is not UNSET and second.token_ids is not UNSET:
        token_ids = token_ids + second.token_ids
    return CompletionChoice(
        first.index,
        first.text + second.text,
        second.finish_reason or first.finish_reason,
        sum(logprobs, CompletionLogprobs()) if logprobs else None,
        first.token_ids
        if second.token_ids is UNSET
        else (first.token_ids or []) + second.token_ids,
        first.prompt_token_ids,
        first.stop_reason if second.stop_reason is UNSET else second.stop_reason,
    )
