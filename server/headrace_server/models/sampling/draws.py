"""What draws need to know of their rows, as tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headrace_server.models.sampling.noise import noise_keys
from headrace_server.models.transfers import to_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import RowSampling

# A top-p of 0 keeps the most likely token, as every other does.
_LEAST_TOP_P = 1e-30


@dataclass(frozen=True, slots=True)
class Draws:
    """How some rows are drawn; columns [rows, 1].

    Args:
        temperatures: float32.
        least_scores: float32, the least score that min-p keeps, where the largest score is 0.
        top_ps: float64, infinity where all are kept.
        top_ks: int64, the size of the vocabulary where all are kept.
        keys: int32 [rows, 2] for `noise`.
        largest_top_k: the largest that does not keep all; 0 where there is none.
        has_top_p: whether a row has a top-p.
        has_min_p: whether a row has a min-p.
    """

    temperatures: torch.Tensor
    least_scores: torch.Tensor
    top_ps: torch.Tensor
    top_ks: torch.Tensor
    keys: torch.Tensor
    largest_top_k: int
    has_top_p: bool
    has_min_p: bool

    @classmethod
    def of(cls, rows: Sequence[RowSampling], vocabulary_size: int, device: torch.device) -> Draws:
        """Gather from rows, at least one."""
        floats = [
            (row.temperature, math.log(min(row.min_p, 1.0)) if row.min_p > 0.0 else -math.inf)
            for row in rows
        ]
        top_ps = [max(row.top_p, _LEAST_TOP_P) if row.top_p < 1.0 else math.inf for row in rows]
        top_ks = [min(row.top_k or vocabulary_size, vocabulary_size) for row in rows]
        keys = [noise_keys(row.seed, row.position) for row in rows]
        temperatures, least_scores = torch.split(to_device(torch.tensor(floats), device), 1, dim=1)
        return cls(
            temperatures,
            least_scores,
            to_device(torch.tensor(top_ps, dtype=torch.float64), device)[:, None],
            to_device(torch.tensor(top_ks), device)[:, None],
            to_device(torch.tensor(keys, dtype=torch.int32), device),
            max((top_k for top_k in top_ks if top_k < vocabulary_size), default=0),
            min(top_ps) < 1.0,
            any(row.min_p > 0.0 for row in rows),
        )

    def scores(self, logits: torch.Tensor, largest: torch.Tensor) -> torch.Tensor:
        """Return logits over temperature, shifted so that the largest is 0.

        Args:
            logits: float32 [rows, n] or [rows, n, m].
            largest: of each row, [rows, 1].
        """
        shape = (-1,) + (1,) * (logits.dim() - 1)
        return (logits - largest.view(shape)).div_(self.temperatures.view(shape))
