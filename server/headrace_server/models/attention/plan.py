"""What attention needs to know of a step, computed once and used by every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from headrace_server.engine.model_runner import BatchRow
    from headrace_server.models.precision import Precision

# Another decode group costs one more gather and one more kernel per layer, about as much as
# reading eight blocks that a mask then hides.
_CHEAP_PADDING_BLOCKS = 8
_PADDING_SHARE = 0.25
# What a CPU gathers at once should still be in its cache when it is read.
_CPU_GATHER_BYTES = 4 << 20

# Prompts attend in tiles that end at multiples of this. The context of a tile depends on where it
# stands and not on how a prompt was cut into steps, and so does every rounding.
_TILE_TOKENS = 256
# MKL rounds products of fewer rows than this in another way.
_ROW_MULTIPLE = 4


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Rows of one new token each and of similar length, computed together.

    Args:
        tokens: where the rows stand in the step.
        num_rows: how many they are.
        block_table: ids of the blocks, [rows * blocks per row].
        masks: by window, what to add to the scores, [rows, 1, 1, keys].
    """

    tokens: slice
    num_rows: int
    block_table: torch.Tensor
    masks: Mapping[int | None, torch.Tensor]


@dataclass(frozen=True, slots=True)
class PrefillTile:
    """Consecutive tokens of one sequence.

    Args:
        tokens: where they stand in the step.
        num_padding_rows: rows to add behind them; the masks have them already.
        block_table: ids of the blocks they may attend to.
        masks: by window, what to add to the scores, [tokens + padding, keys].
    """

    tokens: slice
    num_padding_rows: int
    block_table: torch.Tensor
    masks: Mapping[int | None, torch.Tensor]


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """How the tokens of a step attend, in the order of the step."""

    decode: Sequence[DecodeGroup]
    prefill: Sequence[PrefillTile]


class AttentionPlanner:
    """Plans the attention of steps.

    Args:
        block_size: tokens in a KV block.
        block_bytes: size of a KV block in one layer.
        windows: the windows of the model's layers.
        precision: where and in which format masks are made.
    """

    def __init__(
        self,
        block_size: int,
        block_bytes: int,
        windows: Collection[int | None],
        precision: Precision,
    ) -> None:
        self._block_size = block_size
        self._windows = windows
        self._precision = precision
        is_cpu = precision.device.type == "cpu"
        self._max_group_blocks = _CPU_GATHER_BYTES / block_bytes if is_cpu else math.inf

    def plan(self, rows: Sequence[BatchRow]) -> AttentionPlan:
        """Plan a step whose rows are in the order of `StepInputs.rows`."""
        num_decode = sum(len(row.token_ids) == 1 for row in rows)
        decode = [
            self._decode_group(rows[first:end], first)
            for first, end in self._groups(rows[:num_decode])
        ]
        prefill: list[PrefillTile] = []
        first_token = num_decode
        for row in rows[num_decode:]:
            prefill += self._prefill_tiles(row, first_token)
            first_token += len(row.token_ids)
        return AttentionPlan(decode, prefill)

    def _num_blocks(self, row: BatchRow) -> int:
        return -(-(row.start + len(row.token_ids)) // self._block_size)

    def _groups(self, rows: Sequence[BatchRow]) -> Iterator[tuple[int, int]]:
        """Cut rows of rising length where a group would cost more than two."""
        first = used = 0
        for index, row in enumerate(rows):
            num_blocks = self._num_blocks(row)
            padding = (index - first) * num_blocks - used
            total = used + padding + num_blocks
            is_padded = padding > max(_CHEAP_PADDING_BLOCKS, _PADDING_SHARE * (used + num_blocks))
            if is_padded or (used and total > self._max_group_blocks):
                yield first, index
                first, used = index, 0
            used += num_blocks
        if rows:
            yield first, len(rows)

    def _decode_group(self, rows: Sequence[BatchRow], first_token: int) -> DecodeGroup:
        blocks_per_row = self._num_blocks(rows[-1])
        table = np.stack([self._block_table(row, blocks_per_row) for row in rows])
        masks = self._masks([row.start for row in rows], blocks_per_row)
        return DecodeGroup(
            tokens=slice(first_token, first_token + len(rows)),
            num_rows=len(rows),
            block_table=torch.from_numpy(table).flatten().to(self._precision.device),
            masks={window: mask[:, None, None] for window, mask in masks.items()},
        )

    def _prefill_tiles(self, row: BatchRow, first_token: int) -> Iterator[PrefillTile]:
        start, row_end = row.start, row.start + len(row.token_ids)
        while start < row_end:
            context_end = start - start % _TILE_TOKENS + _TILE_TOKENS
            end = min(context_end, row_end)
            num_padding_rows = (start - end) % _ROW_MULTIPLE
            num_blocks = -(-context_end // self._block_size)
            table = torch.from_numpy(self._block_table(row, num_blocks))
            yield PrefillTile(
                tokens=slice(first_token, first_token + end - start),
                num_padding_rows=num_padding_rows,
                block_table=table.to(self._precision.device),
                masks=self._masks(range(start, end + num_padding_rows), num_blocks),
            )
            first_token += end - start
            start = end

    def _block_table(self, row: BatchRow, length: int) -> npt.NDArray[np.int64]:
        """Return the row's blocks, cut or padded to `length`."""
        # Padding is hidden by the mask but multiplied by zero all the same, so a NaN there would
        # spread: it is a block of the row itself.
        table = np.full(length, row.block_ids[0], dtype=np.int64)
        num_blocks = min(self._num_blocks(row), length)
        table[:num_blocks] = row.block_ids[:num_blocks]
        return table

    def _masks(
        self, positions: Sequence[int], num_blocks: int
    ) -> Mapping[int | None, torch.Tensor]:
        """Return by window what to add to the scores of queries at `positions`: 0 or -infinity."""
        device = self._precision.device
        keys = torch.arange(num_blocks * self._block_size, device=device)
        distance = torch.tensor(positions, device=device)[:, None] - keys
        masks = {}
        for window in self._windows:
            hidden = distance < 0
            if window is not None:
                hidden |= distance >= window
            mask = torch.zeros(hidden.shape, dtype=self._precision.activations, device=device)
            masks[window] = mask.masked_fill_(hidden, -torch.inf)
        return masks
