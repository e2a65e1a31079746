"""The gate of the MLP."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_COLUMNS = 1024


@triton.jit
def _gate_kernel(gate_up, out, width, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    place = gate_up + 2 * row * width + columns
    gate = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(place + width, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * width + columns, gate * tl.sigmoid(gate) * up, mask=inside)


def gate(gate_up: torch.Tensor) -> torch.Tensor:
    """Return silu(gate) * up.

    Args:
        gate_up: [rows, 2 * width], contiguous, the gate first.

    Returns:
        [rows, width].
    """
    num_rows, width = len(gate_up), gate_up.shape[1] // 2
    out = torch.empty((num_rows, width), dtype=gate_up.dtype, device=gate_up.device)
    _gate_kernel[(num_rows, triton.cdiv(width, _COLUMNS))](gate_up, out, width, COLUMNS=_COLUMNS)
    return out
