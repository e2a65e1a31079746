"""GGUF tensors → safetensors files: renamed, matrices in fp16, and their blocks beside them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save_file

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.checkpoint import BLOCKS_SUFFIX
from headrace_server.models.gguf.blocks import read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt
    from gguf import ReaderTensor

    from headrace_server.engine.model_runner import ReportProgress

_SHARD_BYTES = 2 << 30  # held in memory while its file is written
_SLICE_ELEMENTS = 1 << 22  # dequantized to fp32 at once
_FP16_MAX = float(np.finfo(np.float16).max)

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LAYER_TENSOR = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")

# Their content is in config.json.
_ROTARY = re.compile(r"rope_freqs\.weight|blk\.\d+\.attn_rot_embd\.\w+")


def write_weights(
    tensors: Sequence[ReaderTensor],
    config: Mapping[str, Any],
    directory: Path,
    report_progress: ReportProgress,
) -> None:
    """Write model.safetensors, or several files and their index where it would be large.

    Args:
        tensors: of the GGUF file.
        config: the content of config.json.
        directory: where to write.
        report_progress: told the fraction that is done.
    """
    named = [(_name(tensor.name), tensor) for tensor in tensors if not _ROTARY.match(tensor.name)]
    shards = list(_shards(named))
    num_total = max(sum(tensor.n_elements for _, tensor in named), 1)
    num_done = 0
    weight_map = {}
    for number, shard in enumerate(shards, start=1):
        file_name = (
            "model.safetensors"
            if len(shards) == 1
            else f"model-{number:05}-of-{len(shards):05}.safetensors"
        )
        arrays = {}
        blocks: dict[str, npt.NDArray[np.generic]] = {}
        for name, tensor in shard:
            report_progress("converting weights", num_done / num_total)
            arrays[name] = _convert(name, tensor, config)
            for part, array in (read_blocks(tensor) or {}).items():
                blocks[f"{name}.{part}"] = _in_order_of_transformers(name, array, config)
            weight_map[name] = file_name
            num_done += tensor.n_elements
        save_file(arrays, directory / file_name, metadata={"format": "pt"})
        if blocks:
            save_file(blocks, directory / f"quantized-{number:05}{BLOCKS_SUFFIX}")
    if len(shards) > 1:
        index = json.dumps({"metadata": {}, "weight_map": weight_map}, indent=2)
        (directory / "model.safetensors.index.json").write_text(index)


def _name(gguf_name: str) -> str:
    """Return the name of a tensor in transformers."""
    if match := _LAYER_TENSOR.fullmatch(gguf_name):
        layer, part, kind = match.groups()
        if part in _LAYER_NAMES:
            return f"model.layers.{layer}.{_LAYER_NAMES[part]}.{kind}"
    part, _, kind = gguf_name.rpartition(".")
    if part in _NAMES and kind == "weight":
        return f"{_NAMES[part]}.{kind}"
    # To leave a weight out would run and give wrong text.
    raise ModelLoadError(f"The GGUF file has a tensor {gguf_name!r} that the decoder does not use.")


def _shards(
    named: Sequence[tuple[str, ReaderTensor]],
) -> Iterator[list[tuple[str, ReaderTensor]]]:
    shard: list[tuple[str, ReaderTensor]] = []
    num_bytes = 0
    for name, tensor in named:
        size = 2 * tensor.n_elements
        if shard and num_bytes + size > _SHARD_BYTES:
            yield shard
            shard, num_bytes = [], 0
        shard.append((name, tensor))
        num_bytes += size
    yield shard


def _convert(
    name: str, tensor: ReaderTensor, config: Mapping[str, Any]
) -> npt.NDArray[np.float16 | np.float32]:
    shape = tuple(reversed(tensor.shape.tolist()))
    array: npt.NDArray[Any]
    if len(shape) == 1:
        array = _dequantize(tensor, tensor.data).reshape(shape).astype(np.float32)
    else:
        array = np.empty(shape, dtype=np.float16)
        num_rows = max(_SLICE_ELEMENTS // shape[-1], 1)
        for first in range(0, shape[0], num_rows):
            rows = slice(first, first + num_rows)
            values = _dequantize(tensor, tensor.data[rows])
            array[rows] = values.clip(-_FP16_MAX, _FP16_MAX)
    return _in_order_of_transformers(name, array, config)


def _in_order_of_transformers(
    name: str, array: npt.NDArray[Any], config: Mapping[str, Any]
) -> npt.NDArray[Any]:
    if config["model_type"] == "llama":
        if ".q_proj." in name:
            return _split_pairs(array, config["num_attention_heads"])
        if ".k_proj." in name:
            return _split_pairs(array, config["num_key_value_heads"])
    return array


def _dequantize(tensor: ReaderTensor, data: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    from gguf import dequantize

    try:
        return np.asarray(dequantize(data, tensor.tensor_type), dtype=np.float32)
    except NotImplementedError:
        raise ModelLoadError(
            f"The tensor {tensor.name!r} is quantized as {tensor.tensor_type.name}, which cannot "
            "be read; choose a file of another quantization."
        ) from None


def _split_pairs(array: npt.NDArray[Any], num_heads: int) -> npt.NDArray[Any]:
    """Undo llama.cpp's order of rows: it keeps the two numbers that rotate together adjacent."""
    pairs = array.reshape(num_heads, -1, 2, *array.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(array.shape)
