"""A step as tensors: the tokens of all rows in one flat sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import BatchRow, RowSampling


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What the decoder computes in one step.

    Args:
        rows: of the batch, in the order of the step: those of one token first, by length.
        token_ids: [tokens].
        positions: [tokens], each token's index in its sequence.
        slots: [tokens], where each token's key and value go: block id * block_size + offset.
        sampled_tokens: [sampled rows], the last token of each row that is sampled.
        sampled_rows: indices into the batch, in the order of `sampled_tokens`.
        samplings: how to choose, in the same order.
    """

    rows: Sequence[BatchRow]
    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    sampled_tokens: torch.Tensor
    sampled_rows: Sequence[int]
    samplings: Sequence[RowSampling]


def build_step_inputs(
    batch: Sequence[BatchRow], block_size: int, device: torch.device
) -> StepInputs:
    """Lay out a batch of at least one row."""
    order = row_order(batch)
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    sampled_tokens: list[int] = []
    sampled_rows: list[int] = []
    samplings: list[RowSampling] = []
    for index in order:
        row = batch[index]
        end = row.start + len(row.token_ids)
        token_ids += row.token_ids
        positions += range(row.start, end)
        slots += [
            row.block_ids[position // block_size] * block_size + position % block_size
            for position in range(row.start, end)
        ]
        if row.sampling is not None:
            sampled_tokens.append(len(token_ids) - 1)
            sampled_rows.append(index)
            samplings.append(row.sampling)

    def place(indices: list[int]) -> torch.Tensor:
        return torch.tensor(indices, dtype=torch.int64, device=device)

    return StepInputs(
        rows=[batch[index] for index in order],
        token_ids=place(token_ids),
        positions=place(positions),
        slots=place(slots),
        sampled_tokens=place(sampled_tokens),
        sampled_rows=sampled_rows,
        samplings=samplings,
    )


def row_order(batch: Sequence[BatchRow]) -> list[int]:
    """Decode rows come first, so that rows of similar length can be computed together."""

    def place(index: int) -> tuple[bool, int]:
        row = batch[index]
        decodes = len(row.token_ids) == 1
        return not decodes, row.start if decodes else 0

    return sorted(range(len(batch)), key=place)
