"""Cuts rows whose prompt's log probabilities are wanted, so that a step has few logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace_server.engine.model_runner import PromptLogprobs, RowFault, RowOutput

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace_server.engine.model_runner import BatchRow

_MAX_LOGITS_BYTES = 64 << 20
_LOGIT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive tokens of a row of a batch.

    Args:
        index: of the row in the batch.
        row: the piece as a row; the last of a row has its sampling.
    """

    index: int
    row: BatchRow


def cut_batch(batch: Sequence[BatchRow], vocabulary_size: int) -> list[list[Piece]]:
    """Return what to compute in one step after the other, mostly the whole batch at once.

    The logits of prompts in a step are 64 MiB at most, or those of one token. Where they do not
    fit, the rest of the row and the rows behind it come in further steps.
    """
    max_num_logits = max(_MAX_LOGITS_BYTES // (vocabulary_size * _LOGIT_BYTES), 1)
    steps = [[Piece(index, row) for index, row in enumerate(batch) if row.prompt_logprobs is None]]
    num_left = max_num_logits
    for index, row in enumerate(batch):
        if row.prompt_logprobs is None:
            continue
        for piece in _pieces(row, row.prompt_logprobs, num_left, max_num_logits):
            if num_left == 0:
                steps.append([])
                num_left = max_num_logits
            steps[-1].append(Piece(index, piece))
            num_left -= _num_logits(piece)
    return steps


def join_outputs(
    before: RowOutput | RowFault, behind: RowOutput | RowFault
) -> RowOutput | RowFault:
    """Return the output of two pieces of a row."""
    if isinstance(before, RowFault):
        return before
    if isinstance(behind, RowFault) or not before.prompt_logprobs:
        return behind
    return replace(behind, prompt_logprobs=[*before.prompt_logprobs, *behind.prompt_logprobs])


def _pieces(
    row: BatchRow, wanted: PromptLogprobs, num_first: int, num_others: int
) -> Iterator[BatchRow]:
    """Yield pieces with so many logits of the prompt, the last with what is left of the row."""
    targets, start, end = wanted.target_token_ids, 0, num_first or num_others
    while end < len(targets):
        yield replace(
            row,
            token_ids=row.token_ids[start:end],
            start=row.start + start,
            sampling=None,
            prompt_logprobs=replace(wanted, target_token_ids=targets[start:end]),
        )
        start, end = end, end + num_others
    yield replace(
        row,
        token_ids=row.token_ids[start:],
        start=row.start + start,
        prompt_logprobs=replace(wanted, target_token_ids=targets[start:]),
    )


def _num_logits(row: BatchRow) -> int:
    return 0 if row.prompt_logprobs is None else len(row.prompt_logprobs.target_token_ids)
