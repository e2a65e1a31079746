"""Tells whether top-k and top-p keep a token that was drawn from more.

They do where the tokens before it are fewer than top-k and weigh less than top-p of the whole.
Bounds from the most likely blocks are mostly enough to tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace_server.models.sampling.blocks import exp_, sum_blocks
from headrace_server.models.sampling.noise import BLOCK_SIZE
from headrace_server.models.sampling.verdict import Verdict

if TYPE_CHECKING:
    from headrace_server.models.sampling.blocks import Blocks
    from headrace_server.models.sampling.draws import Draws
    from headrace_server.models.sampling.race import Place

# By how much sums over different sets of tokens may differ by rounding.
_ROUNDING = 1e-5


def judge_roughly(blocks: Blocks, draws: Draws, place: Place, num_blocks: int) -> torch.Tensor:
    """Judge the tokens at a place by the most likely blocks, fewer than there are.

    Returns:
        KEPT, DROPPED or UNKNOWN, [rows, 1].
    """
    likely = blocks.maxima.topk(num_blocks + 1)
    part = blocks.part(likely.indices[:, :-1])
    logits = place.logits.unsqueeze(-1)
    is_more, is_as_much = part.logits > logits, part.logits >= logits
    is_kept = place.logits > likely.values[:, -1:]  # what stands before it is all in the part
    is_dropped = torch.zeros_like(is_kept)
    if draws.largest_top_k:
        is_kept &= is_as_much.flatten(1).sum(dim=-1, keepdim=True) <= draws.top_ks
        is_dropped |= is_more.flatten(1).sum(dim=-1, keepdim=True) >= draws.top_ks
    if draws.has_top_p:
        weights = exp_(draws.scores(part.logits, blocks.largest))
        heaviest = exp_(draws.scores(blocks.maxima, blocks.largest)).double()
        outside = heaviest.sum(dim=-1, keepdim=True)
        outside -= heaviest.gather(1, part.block_ids).sum(dim=-1, keepdim=True)
        seen = sum_blocks(weights)
        # What top-k leaves of it is not known here.
        least = seen.masked_fill(draws.top_ks < blocks.vocabulary_size, 0.0)
        most = seen + outside.clamp_(min=0.0) * BLOCK_SIZE
        own = exp_(draws.scores(place.logits, blocks.largest))
        most_before = sum_blocks(weights * is_as_much) - own
        is_kept &= most_before < least * draws.top_ps * (1 - _ROUNDING)
        least_before = sum_blocks(weights.mul_(is_more))
        is_dropped |= least_before >= most * draws.top_ps * (1 + _ROUNDING)
    return _verdicts(is_kept, is_dropped)


def judge(blocks: Blocks, draws: Draws, place: Place, num_blocks: int) -> torch.Tensor:
    """Judge the tokens at a place by what stands before them in the most likely blocks.

    Returns:
        KEPT, DROPPED, or UNKNOWN where more could stand in others, [rows, 1].
    """
    if num_blocks < blocks.num_blocks:
        likely = blocks.maxima.topk(num_blocks + 1)
        part = blocks.part(likely.indices[:, :-1])
        is_known = place.logits > likely.values[:, -1:]
    else:
        part, is_known = blocks.whole, torch.ones_like(place.token_ids, dtype=torch.bool)
    is_before = place.before(part)
    num_before = is_before.flatten(1).sum(dim=-1, keepdim=True)
    is_kept, is_dropped = num_before < draws.top_ks, num_before >= draws.top_ks
    if draws.has_top_p:
        weights = exp_(draws.scores(part.logits, blocks.largest)).mul_(is_before)
        mass_before, limit = sum_blocks(weights), _mass(blocks, draws) * draws.top_ps
        is_kept &= mass_before < limit
        is_dropped |= mass_before >= limit
    return _verdicts(is_kept & is_known, is_dropped)


def _verdicts(is_kept: torch.Tensor, is_dropped: torch.Tensor) -> torch.Tensor:
    others = torch.where(is_kept, Verdict.KEPT, Verdict.UNKNOWN)
    return others.masked_fill_(is_dropped, Verdict.DROPPED)


def _mass(blocks: Blocks, draws: Draws) -> torch.Tensor:
    """Return the weight of what top-k keeps, float64 [rows, 1]."""
    logits = blocks.whole.logits
    mass = sum_blocks(exp_(draws.scores(logits, blocks.largest)))
    if draws.largest_top_k:
        likely = logits.flatten(1).topk(draws.largest_top_k).values
        masses = exp_(draws.scores(likely, blocks.largest)).double().cumsum(dim=-1)
        top_k_mass = masses.gather(1, draws.top_ks.clamp(max=draws.largest_top_k) - 1)
        mass = torch.where(draws.top_ks < blocks.vocabulary_size, top_k_mass, mass)
    return mass
