"""Draws from the few most likely tokens, for rows whose top-k is less than `NUM_TOKENS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace_server.models.sampling.blocks import exp_
from headrace_server.models.sampling.noise import gumbel

if TYPE_CHECKING:
    from headrace_server.models.sampling.blocks import Blocks
    from headrace_server.models.sampling.draws import Draws

# The same for every row, so that none depends on what its neighbours need.
NUM_TOKENS = 64


def draw_ordered(blocks: Blocks, draws: Draws) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw from the `NUM_TOKENS` most likely tokens of each row.

    Returns:
        The choices, int32 [rows], and whether each is settled: not where tokens left out are as
        likely as one that is kept, for then their ids decide.
    """
    logits, token_ids = blocks.most_likely(NUM_TOKENS)
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
