"""Quantized blocks of a GGUF file, taken as they are."""

from types import SimpleNamespace

import gguf
import numpy as np
import pytest
import torch

from headrace_server.models.gguf.blocks import read_blocks
from headrace_server.models.quantization import GroupedWeights

Type = gguf.GGMLQuantizationType


def tensor_of(kind, shape=(48, 96)):
    """A tensor as the reader gives it, and the weights that it stands for."""
    weights = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    data = gguf.quantize(weights, kind)
    tensor = SimpleNamespace(tensor_type=kind, shape=np.array(shape[::-1]), data=data)
    return tensor, gguf.dequantize(data, kind)


@pytest.mark.parametrize("kind", [Type.Q4_0, Type.Q4_1, Type.Q8_0], ids=lambda kind: kind.name)
def test_blocks_stand_for_the_weights_of_the_file(kind):
    """Numbers, scales and offsets give what llama.cpp's own package makes of the blocks."""
    tensor, expected = tensor_of(kind)
    parts = {name: torch.from_numpy(part) for name, part in read_blocks(tensor).items()}
    actual = GroupedWeights(parts["numbers"], parts["scales"], parts.get("offsets")).dequantize()
    torch.testing.assert_close(actual, torch.from_numpy(expected), atol=1e-6, rtol=1e-6)
    assert parts["numbers"].dtype == (torch.int8 if kind is Type.Q8_0 else torch.uint8)


def test_other_kinds_have_no_blocks():
    """What the kernels do not read is left to be dequantized."""
    assert read_blocks(tensor_of(Type.F16)[0]) is None
    assert read_blocks(tensor_of(Type.Q5_1)[0]) is None
