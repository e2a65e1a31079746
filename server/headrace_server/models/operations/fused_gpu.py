"""The operations on GPUs: kernels in Triton around the matrix products of cuBLAS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace_server.models.kernels.triton.decode_attention import attend_decode
from headrace_server.models.kernels.triton.gated import gate
from headrace_server.models.kernels.triton.norm import rms_norm
from headrace_server.models.kernels.triton.prefill_attention import TILE_QUERIES, attend_prefill
from headrace_server.models.kernels.triton.rotary_store import rotate_and_store
from headrace_server.models.linear import DenseLinear
from headrace_server.models.transfers import to_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace_server.engine.model_runner import BatchRow
    from headrace_server.models.decoder import Layer, Norm
    from headrace_server.models.kv_cache import KvCache, LayerCache
    from headrace_server.models.linear import Linear
    from headrace_server.models.step_inputs import StepInputs


@dataclass(frozen=True, slots=True)
class PagedStep:
    """What the kernels need to know of a step: where its tokens stand and what they attend to.

    Args:
        positions: int64 [tokens].
        slots: int64 [tokens]; a token of a negative slot is not stored.
        block_tables: int32 [rows, most blocks of a row].
        lengths: int32 [decode rows], tokens in the context of each; the rows of one token come
            first, and one that only pads the step has length 0.
        tiles: int32 [tiles, 4], the rest of the tokens; see `attend_prefill`.
    """

    positions: torch.Tensor
    slots: torch.Tensor
    block_tables: torch.Tensor
    lengths: torch.Tensor
    tiles: torch.Tensor


class FusedGpuOperations:
    """Implements `Operations`.

    A token's results depend on its own sequence alone but for the products, in which cuBLAS may add
    in another order at another number of rows.

    Args:
        rotations: see `rotary.rotation_table`.
    """

    def __init__(self, rotations: torch.Tensor) -> None:
        self._turns = torch.view_as_real(rotations).flatten(1)  # [context, head_dim]

    def bind(self, step: StepInputs, cache: KvCache) -> FusedGpuStep:
        """Lay out block tables and tiles; see `Operations.bind`."""
        device = step.slots.device
        num_decode = sum(len(row.token_ids) == 1 for row in step.rows)
        lengths = [row.start + 1 for row in step.rows[:num_decode]]
        tiles = list(_tiles(step.rows, num_decode))
        tables = block_tables(step.rows, cache.block_size)
        # One copy to the device. Each part begins at a multiple of 16 bytes, for kernels are
        # compiled anew for a pointer that does not.
        lengths += [0] * (-num_decode % 4)
        parts = [np.array(part, np.int32).ravel() for part in (tiles, lengths, tables)]
        placed = to_device(torch.from_numpy(np.concatenate(parts)), device)
        placed_tiles, placed_lengths, placed_tables = torch.split(
            placed, [len(part) for part in parts]
        )
        return self.bind_paged(
            PagedStep(
                positions=step.positions,
                slots=step.slots,
                block_tables=placed_tables.view(tables.shape),
                lengths=placed_lengths[:num_decode],
                tiles=placed_tiles.view(-1, 4),
            )
        )

    def bind_paged(self, step: PagedStep) -> FusedGpuStep:
        """Compute with tensors that lie on the device; nothing is copied to it."""
        return FusedGpuStep(self._turns, step)


class FusedGpuStep:
    """Implements `StepOperations`."""

    def __init__(self, turns: torch.Tensor, step: PagedStep) -> None:
        self._turns = turns
        self._step = step

    def project_and_store(
        self, hidden: torch.Tensor, layer: Layer, cache: LayerCache
    ) -> torch.Tensor:
        """See `StepOperations.project_and_store`; what it returns is a view with wider rows."""
        projected = layer.qkv(_normed(hidden, layer.input_norm))
        norms = None
        if layer.query_norm is not None and layer.key_norm is not None:
            norms = (layer.query_norm, layer.key_norm)
        step = self._step
        turns = self._turns if layer.is_rotated else None
        rotate_and_store(projected, step.positions, step.slots, turns, norms, cache)
        _, num_kv_heads, head_dim, _ = cache.keys.shape
        return projected[:, : projected.shape[1] - 2 * num_kv_heads * head_dim]

    def attend(self, queries: torch.Tensor, layer: Layer, cache: LayerCache) -> torch.Tensor:
        """See `StepOperations.attend`."""
        step = self._step
        attended = torch.empty(queries.shape, dtype=queries.dtype, device=queries.device)
        if len(step.lengths):
            attend_decode(queries, cache, step.block_tables, step.lengths, layer.window, attended)
        if len(step.tiles):
            attend_prefill(queries, cache, step.block_tables, step.tiles, layer.window, attended)
        return attended

    def add_projection_(self, hidden: torch.Tensor, attended: torch.Tensor, layer: Layer) -> None:
        """See `StepOperations.add_projection_`."""
        _dense(layer.output).add_(hidden, attended)

    def add_gated_mlp_(self, hidden: torch.Tensor, layer: Layer) -> None:
        """See `StepOperations.add_gated_mlp_`."""
        gated = gate(layer.gate_up(_normed(hidden, layer.mlp_norm)))
        _dense(layer.down).add_(hidden, gated)

    def head_logits(
        self, hidden: torch.Tensor, token_indices: torch.Tensor, norm: Norm, head: Linear
    ) -> torch.Tensor:
        """See `StepOperations.head_logits`."""
        return head(rms_norm(hidden, norm.weight, norm.epsilon, token_indices)).float()


def block_tables(rows: Sequence[BatchRow], block_size: int) -> np.ndarray:
    """Return int32 [rows, most blocks of a row]; what is behind a row's blocks is not read."""
    counts = [-(-(row.start + len(row.token_ids)) // block_size) for row in rows]
    tables = np.zeros((len(rows), max(counts)), dtype=np.int32)
    for table, row, num_blocks in zip(tables, rows, counts, strict=True):
        table[:num_blocks] = row.block_ids[:num_blocks]
    return tables


def _tiles(rows: Sequence[BatchRow], num_decode: int) -> Iterator[tuple[int, int, int, int]]:
    first_token = num_decode
    for index in range(num_decode, len(rows)):
        row = rows[index]
        for offset in range(0, len(row.token_ids), TILE_QUERIES):
            num_tokens = min(TILE_QUERIES, len(row.token_ids) - offset)
            yield index, first_token + offset, num_tokens, row.start + offset
        first_token += len(row.token_ids)


def _normed(hidden: torch.Tensor, norm: Norm) -> torch.Tensor:
    return rms_norm(hidden, norm.weight, norm.epsilon)


def _dense(linear: Linear) -> DenseLinear:
    assert isinstance(linear, DenseLinear)  # all there is on GPUs
    return linear
