"""Logits in blocks of tokens, with the largest of each: most searches look into a few blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from headrace_server.models.sampling.noise import BLOCK_SIZE
from headrace_server.models.transfers import to_device

if TYPE_CHECKING:
    from collections.abc import Sequence

# A CPU takes forty times as long for an exponential that is not a normal number.
_LEAST_EXPONENT = -80.0


@dataclass(frozen=True, slots=True)
class Blocks:
    """Logits of some rows.

    Args:
        logits: float32 [rows of the step, blocks, BLOCK_SIZE]; what fills the last block up is
            -infinity.
        rows: which of them are meant, int64 [rows].
        maxima: the largest of each block, NaN where it has one, [rows, blocks].
        largest: the largest of each row, NaN where it has one, [rows, 1].
        vocabulary_size: number of tokens.
    """

    logits: torch.Tensor
    rows: torch.Tensor
    maxima: torch.Tensor
    largest: torch.Tensor
    vocabulary_size: int

    @classmethod
    def of(cls, logits: torch.Tensor) -> Blocks:
        """Look once at logits float32 [rows, vocabulary]."""
        vocabulary_size = logits.shape[1]
        padding = -vocabulary_size % BLOCK_SIZE
        if padding:
            logits = functional.pad(logits, (0, padding), value=-torch.inf)
        logits = logits.reshape(len(logits), -1, BLOCK_SIZE)
        rows = torch.arange(len(logits), device=logits.device)
        maxima = logits.amax(dim=-1)
        return cls(logits, rows, maxima, maxima.amax(dim=-1, keepdim=True), vocabulary_size)

    @property
    def num_blocks(self) -> int:
        """Number of blocks of a row."""
        return self.maxima.shape[1]

    def select(self, rows: Sequence[int]) -> Blocks:
        """Return some of the rows, in rising order."""
        if len(rows) == len(self.rows):
            return self
        places = to_device(torch.tensor(rows), self.logits.device)
        return Blocks(
            self.logits,
            self.rows[places],
            self.maxima[places],
            self.largest[places],
            self.vocabulary_size,
        )

    def argmax(self) -> torch.Tensor:
        """Return the most likely token of each row, int64 [rows]; of equals the first."""
        block_ids = self.maxima.argmax(dim=-1, keepdim=True)
        places = self.part(block_ids).logits.argmax(dim=-1)
        return places.add_(block_ids, alpha=BLOCK_SIZE).flatten()

    def part(self, block_ids: torch.Tensor) -> Part:
        """Look into some blocks of each row, int64 [rows, n]."""
        places = torch.add(block_ids, self.rows[:, None], alpha=self.num_blocks)
        logits = self.logits.flatten(0, 1).index_select(0, places.flatten())
        return Part(logits.view(*block_ids.shape, BLOCK_SIZE), block_ids)

    @property
    def whole(self) -> Part:
        """All blocks of each row."""
        is_all = len(self.rows) == len(self.logits)
        logits = self.logits if is_all else self.logits.index_select(0, self.rows)
        block_ids = torch.arange(self.num_blocks, device=logits.device)
        return Part(logits, block_ids.expand(len(logits), -1))

    def logits_of(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Return the logits of a token of each row, both [rows, 1]."""
        return self.logits.flatten(1)[self.rows[:, None], token_ids]

    def most_likely(self, num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the largest logits of each row, falling, with their ids; equals by rising id.

        Which of those that equal the last are among them is left open.

        Args:
            num_tokens: how many, or all where there are fewer.

        Returns:
            Logits float32 and token ids int32, [rows, tokens].
        """
        num_blocks = min(num_tokens, self.num_blocks)
        # Blocks in order, so that tokens are in the order of their ids.
        block_ids = self.maxima.topk(num_blocks, sorted=False).indices.sort(dim=-1).values
        part = self.part(block_ids)
        num_tokens = min(num_tokens, self.vocabulary_size)
        # `topk` orders equals at will: go back to the order of ids and sort again.
        places = part.logits.flatten(1).topk(num_tokens, sorted=False).indices.sort(dim=-1).values
        logits, order = (
            part.logits.flatten(1).gather(1, places).sort(dim=-1, descending=True, stable=True)
        )
        return logits, part.token_ids.flatten(1).gather(1, places.gather(1, order))


@dataclass(frozen=True, slots=True)
class Part:
    """Some blocks of each row.

    Args:
        logits: float32 [rows, n, BLOCK_SIZE].
        block_ids: int64 [rows, n].
    """

    logits: torch.Tensor
    block_ids: torch.Tensor

    @property
    def token_ids(self) -> torch.Tensor:
        """The ids of `logits`, int32 [rows, n, BLOCK_SIZE]."""
        places = torch.arange(BLOCK_SIZE, dtype=torch.int32, device=self.block_ids.device)
        return torch.add(places, self.block_ids.int().unsqueeze(-1), alpha=BLOCK_SIZE)


def exp_(scores: torch.Tensor) -> torch.Tensor:
    """Turn scores, of which the largest is 0, into weights in place; the least is 1e-35."""
    return scores.clamp_(min=_LEAST_EXPONENT).exp_()


def sum_blocks(values: torch.Tensor) -> torch.Tensor:
    """Sum float32 [rows, n, BLOCK_SIZE] to float64 [rows, 1].

    In this order, because `sum` over a long row would split it between threads where it is alone.
    """
    return values.sum(dim=-1).sum(dim=-1, keepdim=True, dtype=torch.float64)
