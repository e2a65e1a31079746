"""Weights in few bits: the numbers, and the scales that they share in groups of 32 inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP_SIZE = 32
_INT8_LIMIT = 127
_INT4_LIMIT = 15


@dataclass(frozen=True, slots=True)
class GroupedWeights:
    """A quantized matrix: weight = scale * number + offset.

    Args:
        numbers: [out, in]; int8, or uint8 from 0 to 15 where there are offsets.
        scales: float16 [out, in / 32].
        offsets: float16 [out, in / 32]; None stands for 0.
    """

    numbers: torch.Tensor
    scales: torch.Tensor
    offsets: torch.Tensor | None

    def map_rows(self, reorder: Callable[[torch.Tensor], torch.Tensor]) -> GroupedWeights:
        """Return the matrix with its rows in the order that `reorder` gives to tensors."""
        offsets = None if self.offsets is None else reorder(self.offsets)
        return GroupedWeights(reorder(self.numbers), reorder(self.scales), offsets)

    def dequantize(self) -> torch.Tensor:
        """Return the weights in float32."""
        groups = self.numbers.float().view(*self.scales.shape, GROUP_SIZE)
        weights = groups * self.scales.float().unsqueeze(-1)
        if self.offsets is not None:
            weights += self.offsets.float().unsqueeze(-1)
        return weights.flatten(1)


def quantize_int8(weight: torch.Tensor) -> GroupedWeights:
    """Round to 8 bits, symmetrically: the format of GGUF's Q8_0."""
    groups = weight.float().reshape(len(weight), -1, GROUP_SIZE)
    scales = (groups.abs().amax(-1) / _INT8_LIMIT).half()
    numbers = _divide(groups, scales).round_().clamp_(-_INT8_LIMIT, _INT8_LIMIT)
    return GroupedWeights(numbers.to(torch.int8).flatten(1), scales, None)


def quantize_int4(weight: torch.Tensor) -> GroupedWeights:
    """Round to 4 bits between the least and the largest of a group: that of GGUF's Q4_1."""
    groups = weight.float().reshape(len(weight), -1, GROUP_SIZE)
    least, largest = groups.aminmax(dim=-1)
    offsets = least.half()
    scales = ((largest - offsets.float()) / _INT4_LIMIT).half()
    shifted = groups - offsets.float().unsqueeze(-1)
    numbers = _divide(shifted, scales).round_().clamp_(0, _INT4_LIMIT)
    return GroupedWeights(numbers.to(torch.uint8).flatten(1), scales, offsets)


def join(parts: list[GroupedWeights]) -> GroupedWeights:
    """Put matrices of one input and one kind under each other."""
    offsets = [part.offsets for part in parts if part.offsets is not None]
    return GroupedWeights(
        torch.cat([part.numbers for part in parts]),
        torch.cat([part.scales for part in parts]),
        torch.cat(offsets) if offsets else None,
    )


def _divide(groups: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    # A group of zeros, or of numbers too small for a scale, becomes zeros.
    divisors = scales.float().unsqueeze(-1)
    return torch.where(divisors > 0, groups / divisors, 0.0)
