"""The quantized blocks of GGUF tensors as they are, for kernels that multiply with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    from gguf import ReaderTensor

_BLOCK_SIZE = 32

# Bytes before the numbers of a block: an fp16 scale, and with Q4_1 an fp16 offset.
_HEADER_BYTES = {"Q4_0": 2, "Q4_1": 4, "Q8_0": 2}


def read_blocks(tensor: ReaderTensor) -> dict[str, npt.NDArray[Any]] | None:
    """Return the parts of `quantization.GroupedWeights`; None for another kind of tensor.

    A block of Q4_0 is scale * (number - 8), whose offset is -8 times the scale.
    The layouts are those of ggml-common.h of llama.cpp.
    """
    kind = tensor.tensor_type.name
    if kind not in _HEADER_BYTES or len(tensor.shape) != 2:
        return None
    header_bytes = _HEADER_BYTES[kind]
    outputs = tensor.data.shape[0]
    number_bytes = _BLOCK_SIZE if kind == "Q8_0" else _BLOCK_SIZE // 2
    blocks = np.asarray(tensor.data).reshape(outputs, -1, header_bytes + number_bytes)
    header = np.ascontiguousarray(blocks[..., :header_bytes]).view(np.float16)
    numbers = blocks[..., header_bytes:]
    parts: dict[str, npt.NDArray[Any]]
    if kind == "Q8_0":
        parts = {"numbers": np.ascontiguousarray(numbers).view(np.int8).reshape(outputs, -1)}
    else:
        halves = np.concatenate([numbers & 0x0F, numbers >> 4], axis=-1)
        parts = {"numbers": halves.reshape(outputs, -1)}
        # -8 times the scale is a float16 again: only its exponent changes.
        parts["offsets"] = header[..., 1] if kind == "Q4_1" else header[..., 0] * np.float16(-8)
    parts["scales"] = header[..., 0]
    return {name: np.ascontiguousarray(part) for name, part in parts.items()}
