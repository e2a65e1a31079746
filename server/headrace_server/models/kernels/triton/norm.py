"""Root-mean-square normalisation of the hidden state."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _rms_norm_kernel(
    x,
    rows,
    weight,
    out,
    width,
    epsilon,
    HAS_ROWS: tl.constexpr,
    PADDED_WIDTH: tl.constexpr,
):
    target = tl.program_id(0).to(tl.int64)
    source = target
    if HAS_ROWS:
        source = tl.load(rows + target)
    columns = tl.arange(0, PADDED_WIDTH)
    inside = columns < width
    numbers = tl.load(x + source * width + columns, mask=inside, other=0.0).to(tl.float32)
    mean_square = tl.sum(numbers * numbers, axis=0) / width
    scales = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    normed = numbers * tl.rsqrt(mean_square + epsilon) * scales
    tl.store(out + target * width + columns, normed, mask=inside)


def rms_norm(
    x: torch.Tensor, weight: torch.Tensor, epsilon: float, rows: torch.Tensor | None = None
) -> torch.Tensor:
    """Normalise over the last dimension.

    Args:
        x: [rows, width], contiguous.
        weight: [width].
        epsilon: added to the mean square.
        rows: int64 [chosen], which rows to normalise, in which order; None for all.

    Returns:
        [rows or chosen, width], in the format of `x`.
    """
    num_rows, width = x.shape
    if rows is not None:
        num_rows = len(rows)
    out = torch.empty((num_rows, width), dtype=x.dtype, device=x.device)
    padded_width = triton.next_power_of_2(width)
    _rms_norm_kernel[(num_rows,)](
        x,
        x if rows is None else rows,
        weight,
        out,
        width,
        epsilon,
        HAS_ROWS=rows is not None,
        PADDED_WIDTH=padded_width,
        num_warps=min(max(padded_width // 512, 1), 16),
    )
    return out
