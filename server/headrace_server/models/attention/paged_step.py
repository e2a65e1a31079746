"""The attention of one step: keys and values into the cache, and attention to what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace_server.models.attention.plan import AttentionPlanner
from headrace_server.models.attention.sdpa import paged_attention

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from headrace_server.engine.model_runner import BatchRow
    from headrace_server.models.attention.sdpa import Scoring
    from headrace_server.models.kv_cache import KvCache, LayerCache
    from headrace_server.models.precision import Precision
    from headrace_server.models.step_inputs import StepInputs


class PagedStep:
    """Where the tokens of a step store keys and values, and how they attend.

    Args:
        step: the tokens.
        cache: of all layers.
        windows: those of the model's layers.
        precision: where and in which formats the model computes.
    """

    def __init__(
        self,
        step: StepInputs,
        cache: KvCache,
        windows: Collection[int | None],
        precision: Precision,
    ) -> None:
        keys = cache.layers[0].keys
        planner = AttentionPlanner(cache.block_size, 2 * keys[0].nbytes, windows, precision)
        self._plan = planner.plan(step.rows)
        self._blocks = step.slots // cache.block_size
        self._offsets = step.slots % cache.block_size
        # A block is read to its end before it is full. What an earlier owner left there is
        # hidden by the mask, but would spread if it were NaN.
        begun = torch.tensor(
            _begun_blocks(step.rows, cache.block_size), dtype=torch.int64, device=keys.device
        )
        for layer in cache.layers:
            layer.keys.index_fill_(0, begun, 0.0)
            layer.values.index_fill_(0, begun, 0.0)

    def store(self, keys: torch.Tensor, values: torch.Tensor, layer_cache: LayerCache) -> None:
        """Store keys and values [tokens, kv_heads, head_dim] of a layer."""
        layer_cache.keys[self._blocks, :, :, self._offsets] = keys.to(layer_cache.keys.dtype)
        layer_cache.values[self._blocks, :, self._offsets] = values.to(layer_cache.values.dtype)

    def attend(
        self, queries: torch.Tensor, layer_cache: LayerCache, scoring: Scoring
    ) -> torch.Tensor:
        """Attend to the cached context of each token; see `paged_attention`."""
        return paged_attention(queries, layer_cache, self._plan, scoring)


def _begun_blocks(rows: Sequence[BatchRow], block_size: int) -> list[int]:
    """Return the blocks whose first token, but not whose last, is stored in the step."""
    begun = []
    for row in rows:
        end = row.start + len(row.token_ids)
        if end % block_size and end - end % block_size >= row.start:
            begun.append(row.block_ids[end // block_size])
    return begun
