"""What attention needs to know of a step, computed once and used by every layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from headrace_server.engine.model_runner import BatchRow
    from headrace_server.models.precision import Precision

# Another group costs one more gather and one more kernel per layer, about as much as reading
# eight blocks that a mask then hides.
_CHEAP_PADDING_BLOCKS = 8
_PADDING_SHARE = 0.25

Masks = "Mapping[int | None, torch.Tensor]"


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Rows of one new token each and of similar length, computed together.

    Args:
        tokens: where the rows stand in the step.
        block_table: ids of the blocks, [rows * blocks per row].
        masks: by window, what to add to the scores, [rows, 1, 1, keys].
    """

    tokens: slice
    num_rows: int
    block_table: torch.Tensor
    masks: Mapping[int | None, torch.Tensor]


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """Consecutive tokens of one sequence.

    Args:
        tokens: where they stand in the step.
        block_table: ids of the sequence's blocks up to the last of the tokens.
        masks: by window, what to add to the scores, [tokens, keys].
    """

    tokens: slice
    block_table: torch.Tensor
    masks: Mapping[int | None, torch.Tensor]


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """How the tokens of a step attend."""

    decode: Sequence[DecodeGroup]
    prefill: Sequence[PrefillChunk]


def order_rows(batch: Sequence[BatchRow], block_size: int) -> list[int]:
    """Return the order of rows in a step: decode rows by length, then chunks of prompts."""

    def place(index: int) -> tuple[bool, int]:
        row = batch[index]
        is_chunk = len(row.token_ids) > 1
        return is_chunk, 0 if is_chunk else row.start // block_size

    return sorted(range(len(batch)), key=place)


def plan_attention(
    rows: Sequence[BatchRow],
    block_size: int,
    windows: Collection[int | None],
    precision: Precision,
) -> AttentionPlan:
    """Plan a step whose rows are in the order of `order_rows`."""
    num_decode = sum(len(row.token_ids) == 1 for row in rows)
    decode = [
        _decode_group(rows[first:end], first, block_size, windows, precision)
        for first, end in _groups(rows[:num_decode], block_size)
    ]
    prefill = []
    first_token = num_decode
    for row in rows[num_decode:]:
        prefill.append(_prefill_chunk(row, first_token, block_size, windows, precision))
        first_token += len(row.token_ids)
    return AttentionPlan(decode, prefill)


def _num_blocks(row: BatchRow, block_size: int) -> int:
    return -(-(row.start + len(row.token_ids)) // block_size)


def _groups(rows: Sequence[BatchRow], block_size: int) -> Iterator[tuple[int, int]]:
    """Cut rows of rising length where the padding of a group would cost more than another."""
    first = used = 0
    for index, row in enumerate(rows):
        num_blocks = _num_blocks(row, block_size)
        padding = (index + 1 - first) * num_blocks - used - num_blocks
        if padding > max(_CHEAP_PADDING_BLOCKS, _PADDING_SHARE * (used + num_blocks)):
            yield first, index
            first, used = index, 0
        used += num_blocks
    if rows:
        yield first, len(rows)


def _decode_group(
    rows: Sequence[BatchRow],
    first_token: int,
    block_size: int,
    windows: Collection[int | None],
    precision: Precision,
) -> DecodeGroup:
    blocks_per_row = _num_blocks(rows[-1], block_size)
    table = np.empty((len(rows), blocks_per_row), dtype=np.int64)
    for index, row in enumerate(rows):
        num_blocks = _num_blocks(row, block_size)
        table[index, :num_blocks] = row.block_ids[:num_blocks]
        # Hidden by the mask, but multiplied by zero all the same: what is read in place of
        # blocks that a row does not have must be its own, for a NaN there would spread.
        table[index, num_blocks:] = row.block_ids[0]
    positions = torch.tensor([row.start for row in rows], device=precision.device)
    return DecodeGroup(
        tokens=slice(first_token, first_token + len(rows)),
        num_rows=len(rows),
        block_table=torch.from_numpy(table).flatten().to(precision.device),
        masks={
            window: _mask(positions, blocks_per_row * block_size, window, precision)[:, None, None]
            for window in windows
        },
    )


def _prefill_chunk(
    row: BatchRow,
    first_token: int,
    block_size: int,
    windows: Collection[int | None],
    precision: Precision,
) -> PrefillChunk:
    num_blocks = _num_blocks(row, block_size)
    num_tokens = len(row.token_ids)
    positions = torch.arange(row.start, row.start + num_tokens, device=precision.device)
    return PrefillChunk(
        tokens=slice(first_token, first_token + num_tokens),
        block_table=torch.tensor(row.block_ids[:num_blocks], device=precision.device),
        masks={
            window: _mask(positions, num_blocks * block_size, window, precision)
            for window in windows
        },
    )


def _mask(
    positions: torch.Tensor, num_keys: int, window: int | None, precision: Precision
) -> torch.Tensor:
    """Return what to add to the scores of queries at `positions`: 0, or minus infinity."""
    keys = torch.arange(num_keys, device=precision.device)
    distance = positions[:, None] - keys
    hidden = distance < 0
    if window is not None:
        hidden |= distance >= window
    mask = torch.zeros(hidden.shape, dtype=precision.activations, device=precision.device)
    return mask.masked_fill_(hidden, -torch.inf)
