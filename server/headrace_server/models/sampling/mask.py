"""Takes away the tokens that a constraint does not allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace_server.models.transfers import to_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import RowSampling

_BITS = 8


def apply_masks_(logits: torch.Tensor, rows: Sequence[RowSampling]) -> None:
    """Wait for the masks of the rows and make what they leave out -infinity.

    Args:
        logits: float32 [rows, vocabulary]; what is NaN there stays NaN.
        rows: one for each row of `logits`.
    """
    masked = [index for index, row in enumerate(rows) if row.mask is not None]
    if not masked:
        return
    words = np.stack([row.mask.wait() for row in rows if row.mask is not None])
    bits = torch.from_numpy(words.astype("<i4", copy=False).view(np.uint8))
    bits = to_device(bits, logits.device)
    # By bytes from a table: filling by a mask of bools takes a branch for each token.
    amounts = _table(logits.device).index_select(0, bits.flatten().int())
    amounts = amounts.view(len(masked), -1)[:, : logits.shape[1]]
    if len(masked) == len(rows):
        logits.add_(amounts)
    else:
        logits.index_add_(0, to_device(torch.tensor(masked), logits.device), amounts)


def _table(device: torch.device) -> torch.Tensor:
    """Return for each byte what its bits, the lowest first, add: 0 or -infinity, [256, 8]."""
    bits = torch.arange(1 << _BITS, device=device)[:, None] >> torch.arange(_BITS, device=device)
    return torch.zeros(bits.shape, device=device).masked_fill_(bits & 1 == 0, -torch.inf)
