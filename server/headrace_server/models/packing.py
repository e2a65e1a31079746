"""Weight matrices in the layout that the CPU kernels read; see kernels/cpu/product.h."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headrace_server.models.kernels.library import WeightsStruct
from headrace_server.models.quantization import GROUP_SIZE

if TYPE_CHECKING:
    from headrace_server.models.quantization import GroupedWeights

PANEL_SIZE = 16
"""Outputs that lie side by side."""

_FP16, _INT8, _INT4 = range(3)
_FP16_MAX = torch.finfo(torch.float16).max


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """A matrix [outputs, inputs] in panels of 16 outputs; a `Linear` of kernels only.

    Args:
        panels: uint8 [panels, bytes], the last one filled up with zeros.
        bias: float32 [outputs] or None.
        format: the number that the kernels know it by.
    """

    panels: torch.Tensor
    bias: torch.Tensor | None
    outputs: int
    inputs: int
    format: int

    def struct(self, first: int = 0, outputs: int | None = None) -> WeightsStruct:
        """Describe the matrix, or `outputs` of it from `first` on, to the kernels.

        The tensors must live as long as the structure. `first` is a multiple of 16.
        """
        bias = None if self.bias is None else self.bias[first:].data_ptr()
        return WeightsStruct(
            data=self.panels[first // PANEL_SIZE :].data_ptr(),
            bias=bias,
            bytes_per_panel=self.panels.shape[1],
            outputs=self.outputs - first if outputs is None else outputs,
            inputs=self.inputs,
            format=self.format,
        )

    @property
    def is_fp16(self) -> bool:
        """Whether `fp16_rows` gives the rows as they were packed."""
        return self.format == _FP16

    def fp16_rows(self, indices: torch.Tensor) -> torch.Tensor:
        """Return rows of the matrix, fp16 [indices, inputs]. It must be packed as fp16."""
        panels = self.panels.view(torch.float16).view(-1, self.inputs, PANEL_SIZE)
        return panels[indices // PANEL_SIZE, :, indices % PANEL_SIZE]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply [rows, inputs], as `Linear` does."""
        from headrace_server.models.kernels.library import load_kernels

        kernels = load_kernels()
        assert kernels is not None  # weights are packed for kernels only
        x = x.contiguous()
        product = torch.zeros(len(x), self.outputs)
        struct = ctypes.byref(self.struct())
        workspace = torch.empty_like(x)
        kernels.add_product(product.data_ptr(), x.data_ptr(), len(x), struct, workspace.data_ptr())
        return product


def pack_fp16(weight: torch.Tensor, bias: torch.Tensor | None) -> PackedWeights:
    """Pack a matrix [out, in] of any float format as fp16; `in` is a multiple of 32."""
    clipped = weight.clamp(-_FP16_MAX, _FP16_MAX).half()
    return _packed(_by_panel(clipped).view(torch.uint8).flatten(1), weight, bias, _FP16)


def pack_grouped(weights: GroupedWeights, bias: torch.Tensor | None) -> PackedWeights:
    """Pack a quantized matrix."""
    numbers = _by_panel(weights.numbers)  # [panels, in, 16]
    groups = numbers.view(len(numbers), -1, GROUP_SIZE // 4, 4, PANEL_SIZE)
    quads = groups.transpose(-1, -2).contiguous()  # [panels, groups, 8, 16, 4]
    shared = [_by_panel(weights.scales)]  # [panels, groups, 16]
    if weights.offsets is None:
        content, format_number = quads.view(torch.uint8).flatten(2), _INT8
    else:
        even, odd = quads[:, :, 0::2], quads[:, :, 1::2]
        content, format_number = (even | odd << 4).flatten(2), _INT4
        shared.append(_by_panel(weights.offsets))
    parts = [part.contiguous().view(torch.uint8) for part in shared]
    panels = torch.cat([*parts, content], dim=2).flatten(1)
    return _packed(panels, weights.numbers, bias, format_number)


def _by_panel(matrix: torch.Tensor) -> torch.Tensor:
    """Turn [out, width] into [panels, width, 16]."""
    missing = -len(matrix) % PANEL_SIZE
    if missing:
        matrix = torch.cat([matrix, matrix.new_zeros(missing, matrix.shape[1])])
    return matrix.reshape(-1, PANEL_SIZE, matrix.shape[1]).transpose(1, 2).contiguous()


def _packed(
    panels: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None, format_number: int
) -> PackedWeights:
    outputs, inputs = matrix.shape
    return PackedWeights(
        panels=panels.contiguous(),
        bias=None if bias is None else bias.float().contiguous(),
        outputs=outputs,
        inputs=inputs,
        format=format_number,
    )
