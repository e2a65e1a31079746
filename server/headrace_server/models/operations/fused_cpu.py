"""The operations as compiled CPU kernels: one call each, over weights in panels."""

from __future__ import annotations

from ctypes import byref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace_server.models.kernels.library import KvLayerStruct, NormStruct, ProjectionStruct
from headrace_server.models.packing import PackedWeights
from headrace_server.models.quantization import GROUP_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import BatchRow
    from headrace_server.models.config import DecoderConfig
    from headrace_server.models.decoder import Layer, Norm
    from headrace_server.models.kernels.library import CpuKernels, WeightsStruct
    from headrace_server.models.kv_cache import KvCache, LayerCache
    from headrace_server.models.linear import Linear
    from headrace_server.models.step_inputs import StepInputs

_LANES = 8


def fits(config: DecoderConfig, block_size: int) -> bool:
    """Whether the kernels can compute a model: its sizes fill their vectors and groups."""
    widths = (config.hidden_size, config.intermediate_size, config.num_heads * config.head_dim)
    return (
        all(width % GROUP_SIZE == 0 for width in widths)
        and config.head_dim % _LANES == 0
        and block_size % _LANES == 0
    )


class FusedCpuOperations:
    """Implements `Operations`.

    Args:
        kernels: the compiled library.
        layers: of the decoder; their matrices are `PackedWeights`.
        rotations: see `rotary.rotation_table`.
    """

    def __init__(
        self,
        kernels: CpuKernels,
        layers: Sequence[Layer],
        rotations: torch.Tensor,
    ) -> None:
        self._kernels = kernels
        self._layers = [_LayerArguments.of(layer) for layer in layers]
        self._turns = torch.view_as_real(rotations).flatten(1)  # [context, head_dim]
        # What layers without rotation are turned by: by nothing.
        self._still = torch.tensor([[1.0, 0.0]]).repeat(1, rotations.shape[1])
        self._cache: KvCache | None = None
        self._kv_layers: Sequence[KvLayerStruct] = ()

    def bind(self, step: StepInputs, cache: KvCache) -> FusedCpuStep:
        """Lay out block tables and working memory; see `Operations.bind`."""
        if self._cache is not cache:
            self._cache = cache
            self._kv_layers = [_kv_struct(layer) for layer in cache.layers]
        return FusedCpuStep(
            self._kernels,
            self._layers,
            self._kv_layers,
            _Attention.of(step.rows, cache.block_size),
            self._turns[step.positions],
            self._still.expand(len(step.slots), -1).contiguous(),
            step.slots,
        )


class FusedCpuStep:
    """Implements `StepOperations`.

    What the kernels are given of the step is made once, as numbers: a step has 150 calls, and
    at one row asking tensors for their sizes and addresses would be a tenth of its time.
    """

    def __init__(
        self,
        kernels: CpuKernels,
        layers: Sequence[_LayerArguments],
        kv_layers: Sequence[KvLayerStruct],
        attention: _Attention,
        turns: torch.Tensor,
        still: torch.Tensor,
        slots: torch.Tensor,
    ) -> None:
        self._kernels = kernels
        self._layers = layers
        self._kv_layers = kv_layers
        self._attention = attention
        self._positions = _addresses(attention)
        self._rotations = (still, turns)  # by whether the layer is rotated
        self._slots = slots
        self._num_tokens = num_tokens = len(slots)
        first = layers[0]
        widest = max(first.projection.qkv.inputs, first.output.inputs, first.down.inputs)
        self._workspace = _Buffer.of(num_tokens, widest)
        self._projected = _Buffer.of(num_tokens, first.projection.qkv.outputs)
        self._queries = _Buffer.of(num_tokens, first.output.inputs)
        self._attended = _Buffer.of(num_tokens, first.output.inputs)
        self._gated = _Buffer.of(num_tokens, first.down.inputs)

    def project_and_store(
        self, hidden: torch.Tensor, layer: Layer, cache: LayerCache
    ) -> torch.Tensor:
        """See `StepOperations.project_and_store`."""
        self._kernels.project_and_store(
            hidden.data_ptr(),
            self._num_tokens,
            byref(self._layers[layer.index].projection),
            self._rotations[layer.is_rotated].data_ptr(),
            self._slots.data_ptr(),
            byref(self._kv_layers[layer.index]),
            self._workspace.address,
            self._projected.address,
            self._queries.address,
        )
        return self._queries.tensor

    def attend(self, queries: torch.Tensor, layer: Layer, cache: LayerCache) -> torch.Tensor:
        """See `StepOperations.attend`."""
        head_dim = self._kv_layers[layer.index].head_dim
        self._kernels.attend(
            queries.data_ptr(),
            byref(self._kv_layers[layer.index]),
            queries.shape[1] // head_dim,
            self._num_tokens,
            *self._positions,
            self._attention.block_tables.shape[1],
            layer.window or 0,
            head_dim**-0.5,
            self._attended.address,
        )
        return self._attended.tensor

    def add_projection_(self, hidden: torch.Tensor, attended: torch.Tensor, layer: Layer) -> None:
        """See `StepOperations.add_projection_`."""
        self._add_product_(hidden, attended.data_ptr(), self._layers[layer.index].output)

    def add_gated_mlp_(self, hidden: torch.Tensor, layer: Layer) -> None:
        """See `StepOperations.add_gated_mlp_`."""
        arguments = self._layers[layer.index]
        self._kernels.gate(
            hidden.data_ptr(),
            self._num_tokens,
            byref(arguments.mlp_norm),
            byref(arguments.gate),
            byref(arguments.up),
            self._workspace.address,
            self._gated.address,
        )
        self._add_product_(hidden, self._gated.address, arguments.down)

    def _add_product_(self, hidden: torch.Tensor, x: int, weights: WeightsStruct) -> None:
        self._kernels.add_product(
            hidden.data_ptr(), x, self._num_tokens, byref(weights), self._workspace.address
        )

    def head_logits(
        self, hidden: torch.Tensor, token_indices: torch.Tensor, norm: Norm, head: Linear
    ) -> torch.Tensor:
        """See `StepOperations.head_logits`."""
        weights = _packed(head)
        logits = torch.empty(len(token_indices), weights.outputs)
        workspace = torch.empty(len(token_indices), weights.inputs)
        self._kernels.head(
            hidden.data_ptr(),
            token_indices.data_ptr(),
            len(token_indices),
            byref(_norm_struct(norm)),
            byref(weights.struct()),
            workspace.data_ptr(),
            logits.data_ptr(),
        )
        return logits


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Working memory, float32 [tokens, width]."""

    tensor: torch.Tensor
    address: int

    @classmethod
    def of(cls, num_tokens: int, width: int) -> _Buffer:
        tensor = torch.empty(num_tokens, width)
        return cls(tensor, tensor.data_ptr())


@dataclass(frozen=True, slots=True)
class _LayerArguments:
    """A layer as the kernels take it."""

    projection: ProjectionStruct
    output: WeightsStruct
    mlp_norm: NormStruct
    gate: WeightsStruct
    up: WeightsStruct
    down: WeightsStruct

    @classmethod
    def of(cls, layer: Layer) -> _LayerArguments:
        gate_up = _packed(layer.gate_up)
        width = gate_up.outputs // 2
        return cls(
            projection=ProjectionStruct(
                _norm_struct(layer.input_norm),
                _norm_struct(layer.query_norm),
                _norm_struct(layer.key_norm),
                _packed(layer.qkv).struct(),
            ),
            output=_packed(layer.output).struct(),
            mlp_norm=_norm_struct(layer.mlp_norm),
            gate=gate_up.struct(outputs=width),
            up=gate_up.struct(first=width),
            down=_packed(layer.down).struct(),
        )


@dataclass(frozen=True, slots=True)
class _Attention:
    """Where each token of a step stands.

    Args:
        positions: int32 [tokens].
        token_rows: int32 [tokens], the row of `block_tables` of each.
        block_tables: int32 [rows, most blocks of a row].
    """

    positions: np.ndarray
    token_rows: np.ndarray
    block_tables: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[BatchRow], block_size: int) -> _Attention:
        ends = [row.start + len(row.token_ids) for row in rows]
        width = -(-max(ends) // block_size)
        tables = np.zeros((len(rows), width), dtype=np.int32)
        for table, row, end in zip(tables, rows, ends, strict=True):
            num_blocks = -(-end // block_size)
            table[:num_blocks] = row.block_ids[:num_blocks]
        counts = [len(row.token_ids) for row in rows]
        positions = [np.arange(row.start, end) for row, end in zip(rows, ends, strict=True)]
        return cls(
            positions=np.concatenate(positions).astype(np.int32),
            token_rows=np.repeat(np.arange(len(rows), dtype=np.int32), counts),
            block_tables=tables,
        )


def _addresses(attention: _Attention) -> tuple[int, int, int]:
    return (
        attention.positions.ctypes.data,
        attention.token_rows.ctypes.data,
        attention.block_tables.ctypes.data,
    )


def _packed(linear: Linear) -> PackedWeights:
    assert isinstance(linear, PackedWeights)  # as `FusedCpuOperations` demands
    return linear


def _norm_struct(norm: Norm | None) -> NormStruct:
    if norm is None:
        return NormStruct(None, 0.0)
    return NormStruct(norm.weight.data_ptr(), norm.epsilon)


def _kv_struct(cache: LayerCache) -> KvLayerStruct:
    _, kv_heads, head_dim, block_size = cache.keys.shape
    return KvLayerStruct(
        cache.keys.data_ptr(),
        cache.values.data_ptr(),
        kv_heads,
        head_dim,
        block_size,
        cache.keys.dtype == torch.float16,
    )
