"""Draws from the most likely tokens in their order, for rows with a small top-k."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace_server.models.sampling.blocks import exp_
from headrace_server.models.sampling.noise import gumbel

if TYPE_CHECKING:
    from headrace_server.models.sampling.blocks import Blocks
    from headrace_server.models.sampling.draws import Draws


def draw_ordered(
    blocks: Blocks, draws: Draws, num_tokens: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw from the most likely tokens of each row.

    Args:
        blocks: the logits.
        draws: how to draw; each top-k is less than `num_tokens`.
        num_tokens: how many are looked at.

    Returns:
        The choices, int32 [rows], and whether each is settled: not where tokens left out are as
        likely as one that is kept, for then their ids decide.
    """
    logits, token_ids = blocks.most_likely(num_tokens)
    scores = draws.scores(logits, blocks.largest)
    kept = torch.arange(scores.shape[1], device=scores.device) < draws.top_ks
    kept &= logits > -torch.inf
    if draws.has_top_p:
        weights = exp_(scores.clone()).mul_(kept).double()
        mass = weights.cumsum(dim=-1)
        kept &= mass - weights < mass[:, -1:] * draws.top_ps
    if draws.has_min_p:
        kept &= scores >= draws.least_scores
    sums = gumbel(draws.keys, token_ids).add_(scores).masked_fill_(~kept, -torch.inf)
    chosen = token_ids.gather(1, sums.argmax(dim=-1, keepdim=True)).flatten()
    if scores.shape[1] == blocks.vocabulary_size:
        return chosen, torch.ones_like(chosen, dtype=torch.bool)
    least_kept = logits.masked_fill(~kept, torch.inf).amin(dim=-1)
    return chosen, least_kept > logits[:, -1]
