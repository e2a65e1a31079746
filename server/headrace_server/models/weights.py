"""Builds a decoder from the checkpoint of a model directory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.checkpoint import Checkpoint
from headrace_server.models.decoder import Decoder, Layer, Norm
from headrace_server.models.linear import DenseLinear, Linear, PackedFp16Linear
from headrace_server.models.memory import available_bytes, gibibytes
from headrace_server.models.operations.fused_cpu import FusedCpuOperations
from headrace_server.models.operations.reference import ReferenceOperations
from headrace_server.models.packing import pack_fp16, pack_grouped
from headrace_server.models.precision import WeightFormat
from headrace_server.models.quantization import (
    GroupedWeights,
    join,
    quantize_int4,
    quantize_int8,
)
from headrace_server.models.rotary import interleave, rotation_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from headrace_server.engine.model_runner import ReportProgress
    from headrace_server.models.config import DecoderConfig
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
    embedding = builder.embedding()
    rotations = rotation_table(config, context_length, precision.device)
    return Decoder(
        embedding=embedding,
        layers=layers,
        final_norm=builder.norm("model.norm", config.hidden_size),
        head=builder.head(embedding),
        activations=precision.activations,
        operations=_operations(layers, rotations, precision),
    )


def _operations(
    layers: Sequence[Layer], rotations: torch.Tensor, precision: Precision
) -> Operations:
    if precision.kernels is not None:
        return FusedCpuOperations(precision.kernels, layers, rotations)
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


class _Builder:
    """Reads the parts of a decoder by their names in the checkpoint."""

    def __init__(self, checkpoint: Checkpoint, config: DecoderConfig, precision: Precision) -> None:
        self._checkpoint = checkpoint
        self._config = config
        self._precision = precision

    def layer(self, index: int) -> Layer:
        config = self._config
        prefix = f"model.layers.{index}"
        query, key, value, output = (f"{prefix}.self_attn.{part}_proj" for part in "qkvo")
        gate, up, down = (f"{prefix}.mlp.{part}_proj" for part in ("gate", "up", "down"))
        query_width = config.num_heads * config.head_dim
        kv_width = config.num_kv_heads * config.head_dim
        return Layer(
            index=index,
            input_norm=self.norm(f"{prefix}.input_layernorm", config.hidden_size),
            qkv=self._linear(
                {query: query_width, key: kv_width, value: kv_width},
                config.hidden_size,
                rotated=(query, key),
            ),
            query_norm=self._head_norm(f"{prefix}.self_attn.q_norm"),
            key_norm=self._head_norm(f"{prefix}.self_attn.k_norm"),
            output=self._linear({output: config.hidden_size}, query_width),
            mlp_norm=self.norm(f"{prefix}.post_attention_layernorm", config.hidden_size),
            gate_up=self._linear(
                {gate: config.intermediate_size, up: config.intermediate_size}, config.hidden_size
            ),
            down=self._linear({down: config.hidden_size}, config.intermediate_size),
            window=config.layer_windows[index],
        )

    def norm(self, name: str, width: int) -> Norm:
        weight = self._checkpoint.read(f"{name}.weight", (width,))
        return Norm(self._place(weight), self._config.norm_epsilon)

    def embedding(self) -> torch.Tensor:
        shape = (self._config.vocabulary_size, self._config.hidden_size)
        weight = self._checkpoint.read("model.embed_tokens.weight", shape)
        # Rows are converted as they are looked up, or the matrix is shared with a tied head.
        dtype = weight.dtype
        if self._precision.weights is WeightFormat.DENSE:
            dtype = self._precision.activations
        # A copy, so that serving does not depend on the file staying as it is.
        return weight.to(self._precision.device, dtype, copy=True)

    def head(self, embedding: torch.Tensor) -> Linear:
        if self._config.tied_head:
            return self._make_linear(
                embedding, None, [self._checkpoint.read_blocks("model.embed_tokens.weight")]
            )
        return self._linear({"lm_head": self._config.vocabulary_size}, self._config.hidden_size)

    def _head_norm(self, name: str) -> Norm | None:
        if not self._config.qk_norm:
            return None
        weight = self._checkpoint.read(f"{name}.weight", (self._config.head_dim,))
        interleaved = interleave(weight, self._config.head_dim)
        return Norm(self._place(interleaved), self._config.norm_epsilon)

    def _linear(
        self, parts: Mapping[str, int], in_width: int, rotated: Collection[str] = ()
    ) -> Linear:
        """Join projections of one input into one product.

        Args:
            parts: names and output widths, in order.
            in_width: width of the input.
            rotated: those of `parts` whose rows are interleaved for the rotation.
        """

        def order(name: str, tensor: torch.Tensor) -> torch.Tensor:
            return interleave(tensor, self._config.head_dim) if name in rotated else tensor

        def read(kind: str, *rest: int) -> torch.Tensor:
            return torch.cat(
                [
                    order(name, self._checkpoint.read(f"{name}.{kind}", (width, *rest)))
                    for name, width in parts.items()
                ]
            )

        has_bias = any(f"{name}.bias" in self._checkpoint for name in parts)
        blocks = []
        for name in parts:
            found = self._checkpoint.read_blocks(f"{name}.weight")
            blocks.append(found and found.map_rows(partial(order, name)))
        return self._make_linear(
            read("weight", in_width), read("bias") if has_bias else None, blocks
        )

    def _make_linear(
        self,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        blocks: Sequence[GroupedWeights | None],
    ) -> Linear:
        """Bring a matrix [out, in] of any float format into the form of the precision.

        Args:
            weight: the matrix.
            bias: [out].
            blocks: those that the parts of the matrix were made from.
        """
        match self._precision.weights:
            case WeightFormat.DENSE:
                placed = self._place(weight).contiguous()
                return DenseLinear(placed, None if bias is None else self._place(bias))
            case WeightFormat.FBGEMM_FP16:
                return PackedFp16Linear(weight, bias)
            case WeightFormat.FP16:
                return pack_fp16(weight, bias)
            case WeightFormat.INT8:
                return pack_grouped(_grouped(blocks, torch.int8, quantize_int8, weight), bias)
            case WeightFormat.INT4:
                # What the file keeps in 8 bits, such as the head, is worth them.
                if all(part is not None and part.numbers.dtype == torch.int8 for part in blocks):
                    return pack_grouped(_grouped(blocks, torch.int8, quantize_int8, weight), bias)
                return pack_grouped(_grouped(blocks, torch.uint8, quantize_int4, weight), bias)

    def _place(self, weight: torch.Tensor) -> torch.Tensor:
        return weight.to(self._precision.device, self._precision.activations, copy=True)


def _grouped(
    blocks: Sequence[GroupedWeights | None],
    dtype: torch.dtype,
    quantize: Callable[[torch.Tensor], GroupedWeights],
    weight: torch.Tensor,
) -> GroupedWeights:
    """Take the blocks of the file where they are of the wanted kind, and otherwise make some."""
    found = [part for part in blocks if part is not None and part.numbers.dtype == dtype]
    return join(found) if len(found) == len(blocks) else quantize(weight)
