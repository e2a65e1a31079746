"""Matrix products in plain torch; `packing.PackedWeights` is the one for kernels."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch.nn import functional

_FP16_MAX = torch.finfo(torch.float16).max

# Below AVX-512 FBGEMM's kernels for one and for two rows add in another order than those for more,
# and they also compute the rest of a product of many rows. Multiples of three have no such rest,
# so that a row is the same to the bit whatever stands beside it.
_ROW_MULTIPLE = 1 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 3


class Linear(Protocol):
    """y = x Wᵀ + b, for x [rows, in] → [rows, out]."""

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply."""


class DenseLinear:
    """Weights in the format of the activations, on any device."""

    __slots__ = ("_bias", "_weight")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        self._weight = weight
        self._bias = bias

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self._weight)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply; see `Linear`."""
        return functional.linear(x, self._weight, self._bias)

    def add_(self, out: torch.Tensor, x: torch.Tensor) -> None:
        """Add the product to `out`, [rows, out], without a sum of its own on GPUs."""
        if self._bias is not None:
            out.add_(self._bias)
        out.addmm_(x, self._weight.T)


class PackedFp16Linear:
    """FBGEMM's fp16 weights under fp32 activations, on CPUs."""

    __slots__ = ("_packed",)

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        clipped = weight.float().clamp_(-_FP16_MAX, _FP16_MAX)
        bias = None if bias is None else bias.float()
        self._packed: Any = torch.ops.quantized.linear_prepack_fp16(clipped, bias)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply; see `Linear`."""
        padding = -len(x) % _ROW_MULTIPLE
        padded = functional.pad(x, (0, 0, 0, padding)) if padding else x
        product: torch.Tensor = torch.ops.quantized.linear_dynamic_fp16(padded, self._packed)
        return product[: len(x)]
