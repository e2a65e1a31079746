"""Draws from any number of tokens, looking at few of them and sorting none.

The largest logit and the largest noise of a block bound what its tokens can come to, so that only
the most promising blocks take part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from headrace_server.models.sampling.noise import delays, first_times

if TYPE_CHECKING:
    from headrace_server.models.sampling.blocks import Blocks, Part
    from headrace_server.models.sampling.draws import Draws


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the order of each row's tokens: by falling logit, and of equals by rising id.

    Args:
        logits: of the tokens at the place, [rows, 1].
        token_ids: int64 [rows, 1].
    """

    logits: torch.Tensor
    token_ids: torch.Tensor

    @classmethod
    def of(cls, blocks: Blocks, token_ids: torch.Tensor) -> Place:
        """Return the place of a token of each row; an id behind the vocabulary is the end."""
        logits = blocks.logits_of(token_ids.clamp(max=blocks.vocabulary_size - 1))
        is_end = token_ids >= blocks.vocabulary_size
        return cls(logits.masked_fill_(is_end, -torch.inf), token_ids)

    def before(self, part: Part) -> torch.Tensor:
        """Return which tokens of a part stand before the place, bool [rows, n, BLOCK_SIZE]."""
        logits = self.logits.unsqueeze(-1)
        is_lower = part.token_ids < self.token_ids.unsqueeze(-1)
        return (part.logits > logits) | ((part.logits == logits) & is_lower)


def race(
    blocks: Blocks, draws: Draws, end: Place | None, num_blocks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one of those that min-p keeps.

    Args:
        blocks: the logits.
        draws: how to draw.
        end: only tokens before this place take part.
        num_blocks: how many blocks do.

    Returns:
        Token ids int32 [rows, 1], and whether no other block can hold a better token.
    """
    scores = draws.scores(blocks.maxima, blocks.largest)
    if draws.has_min_p:
        scores.masked_fill_(scores < draws.least_scores, -torch.inf)
    block_ids = torch.arange(blocks.num_blocks, dtype=torch.int32, device=scores.device)
    times, places = first_times(draws.keys, block_ids[None])
    bounds = scores.sub_(times.log())
    if end is not None:
        bounds.masked_fill_(blocks.maxima < end.logits, -torch.inf)
    if num_blocks < blocks.num_blocks:
        best = bounds.topk(num_blocks + 1)
        part, bound = blocks.part(best.indices[:, :-1]), best.values[:, -1:]
        times, places = times.gather(1, part.block_ids), places.gather(1, part.block_ids)
    else:
        part, bound = blocks.whole, torch.full_like(blocks.largest, -torch.inf)
    token_ids = part.token_ids
    waiting = delays(draws.keys, token_ids).scatter_(-1, places.long().unsqueeze(-1), 0.0)
    scores = draws.scores(part.logits, blocks.largest)
    if draws.has_min_p:
        scores.masked_fill_(scores < draws.least_scores.unsqueeze(-1), -torch.inf)
    if end is not None:
        scores.masked_fill_(~end.before(part), -torch.inf)
    sums = scores.sub_(waiting.add_(times.unsqueeze(-1)).log_())
    largest, winners = sums.flatten(1).max(dim=-1, keepdim=True)
    return token_ids.flatten(1).gather(1, winners), largest > bound
