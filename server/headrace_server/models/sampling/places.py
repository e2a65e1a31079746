"""Places in the logits of a step: some token ids of some rows, with an amount for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace_server.models.transfers import to_device

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Places:
    """Collects places. As vectors, for there can be many thousand."""

    _rows: list[int] = field(default_factory=list)
    _token_ids: list[npt.NDArray[np.int64]] = field(default_factory=list)
    _amounts: list[npt.NDArray[np.float32]] = field(default_factory=list)

    def add(
        self, row: int, token_ids: npt.NDArray[np.int64], amounts: npt.NDArray[np.float32] | float
    ) -> None:
        """Add ids of a row with the amount of each, or one for all."""
        self._rows.append(row)
        self._token_ids.append(token_ids)
        self._amounts.append(np.broadcast_to(np.asarray(amounts, np.float32), token_ids.shape))

    def __bool__(self) -> bool:
        return bool(self._rows)

    def tensors(
        self, device: torch.device
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Return what to index logits with, rows and token ids, and the amounts, [places] each."""
        rows = np.repeat(self._rows, [len(token_ids) for token_ids in self._token_ids])
        token_ids, amounts = np.concatenate(self._token_ids), np.concatenate(self._amounts)
        placed_rows, placed_ids, placed_amounts = (
            to_device(torch.from_numpy(part), device) for part in (rows, token_ids, amounts)
        )
        return (placed_rows, placed_ids), placed_amounts
