"""Looks up the rows of tokens, in a matrix of their own or in that of a tied head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch.nn import functional

if TYPE_CHECKING:
    import torch

    from headrace_server.models.packing import PackedWeights


class Embedding(Protocol):
    """Turns token ids [tokens] into rows [tokens, hidden], in the format that they are kept in."""

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Look up."""

    def __len__(self) -> int:
        """Size of the vocabulary."""

    @property
    def device(self) -> torch.device:
        """Where it is kept."""


@dataclass(frozen=True, slots=True, eq=False)
class DenseEmbedding:
    """A matrix [vocabulary, hidden] of its own, on any device."""

    weight: torch.Tensor

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Look up; see `Embedding`."""
        return functional.embedding(token_ids, self.weight)

    def __len__(self) -> int:
        """See `Embedding`."""
        return len(self.weight)

    @property
    def device(self) -> torch.device:
        """See `Embedding`."""
        return self.weight.device


@dataclass(frozen=True, slots=True, eq=False)
class TiedEmbedding:
    """The rows of a head that is packed as fp16, so that their matrix is in memory once."""

    head: PackedWeights

    def __call__(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Look up; see `Embedding`."""
        return self.head.fp16_rows(token_ids)

    def __len__(self) -> int:
        """See `Embedding`."""
        return self.head.outputs

    @property
    def device(self) -> torch.device:
        """See `Embedding`."""
        return self.head.panels.device
