"""The operations in plain torch: they run on every device, and are what kernels must equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

from headrace_server.models.attention.paged_step import PagedStep
from headrace_server.models.attention.sdpa import Scoring
from headrace_server.models.rotary import rotate_

if TYPE_CHECKING:
    from collections.abc import Collection

    import torch

    from headrace_server.models.decoder import Layer, Norm
    from headrace_server.models.kv_cache import KvCache, LayerCache
    from headrace_server.models.linear import Linear
    from headrace_server.models.precision import Precision
    from headrace_server.models.step_inputs import StepInputs


class ReferenceOperations:
    """Implements `Operations`.

    Args:
        rotations: see `rotary.rotation_table`.
        windows: those of the model's layers.
        precision: where and in which formats the model computes.
    """

    def __init__(
        self, rotations: torch.Tensor, windows: Collection[int | None], precision: Precision
    ) -> None:
        self._rotations = rotations
        self._windows = windows
        self._precision = precision

    def bind(self, step: StepInputs, cache: KvCache) -> ReferenceStep:
        """Plan the attention of a step; see `Operations.bind`."""
        rotations = self._rotations[step.positions].unsqueeze(1)
        return ReferenceStep(PagedStep(step, cache, self._windows, self._precision), rotations)


class ReferenceStep:
    """Implements `StepOperations`."""

    def __init__(self, paged: PagedStep, rotations: torch.Tensor) -> None:
        self._paged = paged
        self._rotations = rotations

    def project_and_store(
        self, hidden: torch.Tensor, layer: Layer, cache: LayerCache
    ) -> torch.Tensor:
        """See `StepOperations.project_and_store`."""
        projected = layer.qkv(layer.input_norm(hidden))
        num_kv_heads, head_dim = cache.keys.shape[1:3]
        kv_width = num_kv_heads * head_dim
        query_width = projected.shape[1] - 2 * kv_width
        heads = projected[:, : query_width + kv_width].view(len(hidden), -1, head_dim)
        if layer.query_norm is not None and layer.key_norm is not None:
            num_query_heads = query_width // head_dim
            queries, keys = heads[:, :num_query_heads], heads[:, num_query_heads:]
            queries.copy_(layer.query_norm(queries))
            keys.copy_(layer.key_norm(keys))
        if layer.is_rotated:
            rotate_(heads, self._rotations)
        keys, values = projected[:, query_width:].view(len(hidden), 2, -1, head_dim).unbind(1)
        self._paged.store(keys, values, cache)
        return projected[:, :query_width]

    def attend(self, queries: torch.Tensor, layer: Layer, cache: LayerCache) -> torch.Tensor:
        """See `StepOperations.attend`."""
        return self._paged.attend(queries, cache, Scoring(layer.window))

    def add_projection_(self, hidden: torch.Tensor, attended: torch.Tensor, layer: Layer) -> None:
        """See `StepOperations.add_projection_`."""
        hidden.add_(layer.output(attended))

    def add_gated_mlp_(self, hidden: torch.Tensor, layer: Layer) -> None:
        """See `StepOperations.add_gated_mlp_`."""
        gate, up = layer.gate_up(layer.mlp_norm(hidden)).chunk(2, dim=1)
        hidden.add_(layer.down(functional.silu(gate).mul_(up)))

    def head_logits(
        self, hidden: torch.Tensor, token_indices: torch.Tensor, norm: Norm, head: Linear
    ) -> torch.Tensor:
        """See `StepOperations.head_logits`."""
        return head(norm(hidden.index_select(0, token_indices))).float()
