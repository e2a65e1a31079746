"""A step as tensors: the tokens of all rows in one flat sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from headrace_server.models.transfers import to_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import BatchRow, PromptLogprobs, RowSampling


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What the decoder computes in one step.

    Args:
        rows: of the batch, in the order of the step: those of one token first, by length.
        token_ids: [tokens].
        positions: [tokens], each token's index in its sequence.
        slots: [tokens], where each token's key and value go: block id * block_size + offset.
        logit_tokens: [logits], the tokens whose logits are wanted, rising: the last of each row
            that is sampled, and those of prompts whose log probabilities are wanted.
        sampled_rows: indices into the batch of the rows that are sampled.
        samplings: how to choose, in the same order.
        sampled_logits: where their logits stand, in the same order.
        prompt_rows: indices into the batch of the rows with prompts.
        prompts: what is wanted of them, in the same order.
        prompt_logits: where the logits of all targets stand, in the same order.
    """

    rows: Sequence[BatchRow]
    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor
    logit_tokens: torch.Tensor
    sampled_rows: Sequence[int]
    samplings: Sequence[RowSampling]
    sampled_logits: Sequence[int]
    prompt_rows: Sequence[int]
    prompts: Sequence[PromptLogprobs]
    prompt_logits: Sequence[int]


def build_step_inputs(
    batch: Sequence[BatchRow],
    block_size: int,
    device: torch.device,
    chosen: torch.Tensor | None = None,
) -> StepInputs:
    """Lay out a batch of at least one row.

    Args:
        batch: the rows.
        block_size: tokens in a KV block.
        device: where the tensors are to be.
        chosen: the tokens of the step before, int64 [rows], for rows that await one; on the device.
    """
    order = row_order(batch)
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    wanted = _Wanted()
    for index in order:
        row = batch[index]
        end = row.start + len(row.token_ids)
        wanted.add(index, row, first_token=len(token_ids))
        token_ids += row.token_ids
        positions += range(row.start, end)
        slots += [
            row.block_ids[position // block_size] * block_size + position % block_size
            for position in range(row.start, end)
        ]

    def placed(indices: list[int]) -> torch.Tensor:
        return to_device(torch.tensor(indices, dtype=torch.int64), device)

    rows = [batch[index] for index in order]
    return StepInputs(
        rows=rows,
        token_ids=_take_awaited(placed(token_ids), rows, chosen),
        positions=placed(positions),
        slots=placed(slots),
        logit_tokens=placed(wanted.tokens),
        sampled_rows=wanted.sampled_rows,
        samplings=wanted.samplings,
        sampled_logits=wanted.sampled_logits,
        prompt_rows=wanted.prompt_rows,
        prompts=wanted.prompts,
        prompt_logits=wanted.prompt_logits,
    )


def _take_awaited(
    token_ids: torch.Tensor, rows: Sequence[BatchRow], chosen: torch.Tensor | None
) -> torch.Tensor:
    """Put the tokens that rows await where they stand: such rows are of one token, and first."""
    places = [index for index, row in enumerate(rows) if row.awaited_row is not None]
    if chosen is None or not places:
        return token_ids
    awaited = [row.awaited_row for row in rows if row.awaited_row is not None]
    at, source = (to_device(torch.tensor(part), token_ids.device) for part in (places, awaited))
    return token_ids.index_copy_(0, at, chosen.index_select(0, source))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Collects the tokens whose logits are wanted; see `StepInputs`."""

    tokens: list[int] = field(default_factory=list)
    sampled_rows: list[int] = field(default_factory=list)
    samplings: list[RowSampling] = field(default_factory=list)
    sampled_logits: list[int] = field(default_factory=list)
    prompt_rows: list[int] = field(default_factory=list)
    prompts: list[PromptLogprobs] = field(default_factory=list)
    prompt_logits: list[int] = field(default_factory=list)

    def add(self, index: int, row: BatchRow, first_token: int) -> None:
        """Add the next row of the step, whose tokens begin at `first_token`."""
        if row.prompt_logprobs is not None:
            num_targets = len(row.prompt_logprobs.target_token_ids)
            self.prompt_rows.append(index)
            self.prompts.append(row.prompt_logprobs)
            self.prompt_logits.extend(range(len(self.tokens), len(self.tokens) + num_targets))
            self.tokens.extend(range(first_token, first_token + num_targets))
        if row.sampling is not None:
            self.sampled_rows.append(index)
            self.samplings.append(row.sampling)
            self.sampled_logits.append(len(self.tokens))
            self.tokens.append(first_token + len(row.token_ids) - 1)


def row_order(batch: Sequence[BatchRow]) -> list[int]:
    """Decode rows come first, so that rows of similar length can be computed together."""

    def place(index: int) -> tuple[bool, int]:
        row = batch[index]
        decodes = len(row.token_ids) == 1
        return not decodes, row.start if decodes else 0

    return sorted(range(len(batch)), key=place)
