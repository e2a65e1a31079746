"""Builds a decoder from the checkpoint of a model directory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.checkpoint import Checkpoint
from headrace_server.models.decoder import Decoder, Layer, Norm
from headrace_server.models.embedding import DenseEmbedding, TiedEmbedding
from headrace_server.models.gpu import has_gpu_kernels
from headrace_server.models.linear import DenseLinear, Linear, PackedFp16Linear
from headrace_server.models.memory import available_bytes, gibibytes
from headrace_server.models.operations.fused_cpu import FusedCpuOperations
from headrace_server.models.operations.reference import ReferenceOperations
from headrace_server.models.packing import PackedWeights, pack_fp16, pack_grouped
from headrace_server.models.precision import WeightFormat
from headrace_server.models.quantization import (
    GroupedWeights,
    join,
    quantize_int4,
    quantize_int8,
)
from headrace_server.models.rotary import interleave, rotation_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace_server.engine.model_runner import ReportProgress
    from headrace_server.models.config import DecoderConfig
    from headrace_server.models.embedding import Embedding
    from headrace_server.models.operations.interface import Operations
    from headrace_server.models.precision import Precision

# Bytes of a weight with its share of a scale.
_BYTES = {
    WeightFormat.FBGEMM_FP16: 2,
    WeightFormat.FP16: 2,
    WeightFormat.INT8: 34 / 32,
    WeightFormat.INT4: 20 / 32,
}


def load_decoder(
    directory: Path,
    config: DecoderConfig,
    context_length: int,
    precision: Precision,
    report_progress: ReportProgress,
) -> Decoder:
    """Read all weights and bring them into the form of `precision`.

    Raises:
        ModelLoadError: weights are missing, broken, too large for this machine, or of other
            shapes than config.json says.
    """
    checkpoint = Checkpoint(directory)
    check_memory(checkpoint, precision)
    builder = _Builder(checkpoint, config, precision)
    layers = []
    for index in range(config.num_layers):
        report_progress("loading weights", index / config.num_layers)
        layers.append(builder.layer(index))
    rotations = rotation_table(config, context_length, precision.device)
    head = builder.head()
    return Decoder(
        embedding=builder.embedding(head),
        layers=layers,
        final_norm=builder.norm("model.norm", config.hidden_size),
        head=head,
        activations=precision.activations,
        operations=_operations(layers, rotations, precision),
    )


def _operations(
    layers: Sequence[Layer], rotations: torch.Tensor, precision: Precision
) -> Operations:
    if precision.kernels is not None:
        return FusedCpuOperations(precision.kernels, layers, rotations)
    if has_gpu_kernels(precision.device, head_dim=2 * rotations.shape[1]):
        # Imported where it is needed, for it compiles for GPUs.
        from headrace_server.models.operations.fused_gpu import FusedGpuOperations

        return FusedGpuOperations(rotations)
    return ReferenceOperations(rotations, {layer.window for layer in layers}, precision)


def check_memory(checkpoint: Checkpoint, precision: Precision) -> None:
    """Refuse what could only end with the process killed.

    Raises:
        ModelLoadError: there is less memory than the weights take.
    """
    is_dense = precision.weights is WeightFormat.DENSE
    weight_bytes = precision.activations.itemsize if is_dense else _BYTES[precision.weights]
    needed = int(checkpoint.count_elements() * weight_bytes)
    available = available_bytes(precision.device)
    if needed > available:
        raise ModelLoadError(
            f"The weights take {gibibytes(needed)} but only {gibibytes(available)} are free; "
            "choose a smaller model or a larger machine."
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """A projection of the checkpoint.

    Args:
        width: of its output.
        num_rotated: how many of its first rows are interleaved for the rotation.
        factor: that its weights are multiplied by.
    """

    name: str
    width: int
    num_rotated: int = 0
    factor: float = 1.0


class _Builder:
    """Reads the parts of a decoder by their names in the checkpoint."""

    def __init__(self, checkpoint: Checkpoint, config: DecoderConfig, precision: Precision) -> None:
        self._checkpoint = checkpoint
        self._config = config
        self._precision = precision

    def layer(self, index: int) -> Layer:
        config = self._config
        prefix = f"model.layers.{index}"
        output, down = f"{prefix}.self_attn.o_proj", f"{prefix}.mlp.down_proj"
        residual = config.multipliers.residual
        return Layer(
            index=index,
            input_norm=self.norm(f"{prefix}.input_layernorm", config.hidden_size),
            qkv=self._qkv(f"{prefix}.self_attn"),
            query_norm=self._head_norm(f"{prefix}.self_attn.q_norm"),
            key_norm=self._head_norm(f"{prefix}.self_attn.k_norm"),
            output=self._linear(
                [_Part(output, config.hidden_size, factor=residual)],
                config.num_heads * config.head_dim,
            ),
            mlp_norm=self.norm(f"{prefix}.post_attention_layernorm", config.hidden_size),
            gate_up=self._gate_up(f"{prefix}.mlp"),
            down=self._linear(
                [_Part(down, config.hidden_size, factor=residual)], config.intermediate_size
            ),
            window=config.layer_windows[index],
            is_rotated=config.layer_rotations[index],
        )

    def _qkv(self, prefix: str) -> Linear:
        config = self._config
        query, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        if config.fused_projections:
            parts = [_Part(f"{prefix}.qkv_proj", query + 2 * kv, num_rotated=query + kv)]
        else:
            factor = config.multipliers.query
            parts = [
                _Part(f"{prefix}.q_proj", query, num_rotated=query, factor=factor),
                _Part(f"{prefix}.k_proj", kv, num_rotated=kv),
                _Part(f"{prefix}.v_proj", kv),
            ]
        return self._linear(parts, config.hidden_size)

    def _gate_up(self, prefix: str) -> Linear:
        width = self._config.intermediate_size
        if self._config.fused_projections:
            parts = [_Part(f"{prefix}.gate_up_proj", 2 * width)]
        else:
            parts = [_Part(f"{prefix}.{name}_proj", width) for name in ("gate", "up")]
        return self._linear(parts, self._config.hidden_size)

    def norm(self, name: str, width: int) -> Norm:
        weight = self._checkpoint.read(f"{name}.weight", (width,))
        return Norm(self._place(weight), self._config.norm_epsilon)

    def embedding(self, head: Linear) -> Embedding:
        shape = (self._config.vocabulary_size, self._config.hidden_size)
        weight = self._checkpoint.read("model.embed_tokens.weight", shape)
        factor = self._config.multipliers.embedding
        if isinstance(head, PackedWeights) and head.is_fp16 and self._is_shared(weight):
            return TiedEmbedding(head)
        if factor != 1.0:
            # Of bf16 a product would lose digits; fp16 has more of them in as many bytes.
            wide = torch.float32 if weight.dtype == torch.float32 else torch.float16
            weight = (weight.float() * factor).to(wide)
        # Rows are converted as they are looked up.
        dtype = weight.dtype
        if self._precision.weights is WeightFormat.DENSE:
            dtype = self._precision.activations
        # A copy, so that serving does not depend on the file staying as it is.
        return DenseEmbedding(weight.to(self._precision.device, dtype, copy=True))

    def _is_shared(self, embedding: torch.Tensor) -> bool:
        """Whether a head that is packed as fp16 has the rows of the embedding to the bit."""
        factors = self._config.multipliers
        is_scaled = (factors.embedding, factors.logits) != (1.0, 1.0)
        return self._config.tied_head and not is_scaled and embedding.dtype == torch.float16

    def head(self) -> Linear:
        name = "model.embed_tokens" if self._config.tied_head else "lm_head"
        factor = self._config.multipliers.logits
        part = _Part(name, self._config.vocabulary_size, factor=factor)
        return self._linear([part], self._config.hidden_size)

    def _head_norm(self, name: str) -> Norm | None:
        if not self._config.qk_norm:
            return None
        weight = self._checkpoint.read(f"{name}.weight", (self._config.head_dim,))
        return Norm(self._place(self._interleave(weight)), self._config.norm_epsilon)

    def _interleave(self, rows: torch.Tensor) -> torch.Tensor:
        return interleave(rows, self._config.head_dim, self._config.rotary_dim)

    def _linear(self, parts: Sequence[_Part], in_width: int) -> Linear:
        """Join projections of one input into one product in the form of the precision."""
        # Views of the file: their shapes are checked here even where blocks take their place.
        rows = [
            self._checkpoint.read(f"{part.name}.weight", (part.width, in_width)) for part in parts
        ]
        bias = self._bias(parts)
        match self._precision.weights:
            case WeightFormat.DENSE:
                placed = self._place(self._join(parts, rows)).contiguous()
                return DenseLinear(placed, None if bias is None else self._place(bias))
            case WeightFormat.FBGEMM_FP16:
                return PackedFp16Linear(self._join(parts, rows), bias)
            case WeightFormat.FP16:
                return pack_fp16(self._join(parts, rows), bias)
            case WeightFormat.INT8 | WeightFormat.INT4:
                return pack_grouped(self._grouped(parts, rows), bias)

    def _bias(self, parts: Sequence[_Part]) -> torch.Tensor | None:
        if not any(f"{part.name}.bias" in self._checkpoint for part in parts):
            return None
        rows = [self._checkpoint.read(f"{part.name}.bias", (part.width,)) for part in parts]
        return self._join(parts, rows)

    def _join(self, parts: Sequence[_Part], rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Put the rows of all parts under each other, scaled and in the order of the rotation."""
        joined = []
        for part, tensor in zip(parts, rows, strict=True):
            scaled = tensor if part.factor == 1.0 else tensor.float() * part.factor
            joined.append(self._order(part, scaled))
        return torch.cat(joined) if len(joined) > 1 else joined[0]

    def _order(self, part: _Part, rows: torch.Tensor) -> torch.Tensor:
        if not part.num_rotated:
            return rows
        rotated, rest = rows[: part.num_rotated], rows[part.num_rotated :]
        return torch.cat((self._interleave(rotated), rest))

    def _grouped(self, parts: Sequence[_Part], rows: Sequence[torch.Tensor]) -> GroupedWeights:
        """Take the blocks of the file where they are of a wanted kind, and otherwise make some."""
        is_int4 = self._precision.weights is WeightFormat.INT4
        blocks = self._blocks(parts, rows)
        kinds = {part.numbers.dtype for part in blocks}
        # What the file keeps in 8 bits, such as the head, is worth them in `q4` too.
        if len(blocks) == len(parts) and (
            kinds == {torch.int8} or (is_int4 and kinds == {torch.uint8})
        ):
            return join(blocks)
        weight = self._join(parts, rows)
        return quantize_int4(weight) if is_int4 else quantize_int8(weight)

    def _blocks(self, parts: Sequence[_Part], rows: Sequence[torch.Tensor]) -> list[GroupedWeights]:
        """Return the blocks that the parts were made from, of those that have some."""
        found = []
        for part, tensor in zip(parts, rows, strict=True):
            blocks = self._checkpoint.read_blocks(f"{part.name}.weight", tuple(tensor.shape))
            if blocks is not None and part.factor == 1.0:
                found.append(blocks.map_rows(partial(self._order, part)))
        return found

    def _place(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.to(self._precision.device, self._precision.activations, copy=True)
