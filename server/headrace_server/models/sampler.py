"""Chooses the next token of each row. A choice depends on its row alone, never on the batch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from headrace_server.engine.model_runner import RowFault
from headrace_server.models.noise import gumbel, noise_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import RowSampling

# Below this the float32 quotient of a logit and the temperature can overflow.
_LEAST_TEMPERATURE = 1e-30

# How many of the most likely tokens are looked at, until a row's choice is settled; after these,
# all are. The same for every row, so that none depends on what its neighbours need.
_SLICE_WIDTHS = (64, 1024)


def choose_tokens(logits: torch.Tensor, rows: Sequence[RowSampling]) -> list[int | RowFault]:
    """Choose one token per row.

    The order is: banned ids, temperature, top-k, top-p, min-p, and the largest sum of
    logit and noise (Gumbel-max), which draws from the softmax of what is left.

    Args:
        logits: float32 [rows, vocabulary]; overwritten where ids are banned.
        rows: how to choose, one for each row of `logits`.
    """
    _ban(logits, rows)
    largest, chosen = logits.max(dim=-1)
    settled = torch.ones_like(chosen, dtype=torch.bool)
    drawn = [index for index, row in enumerate(rows) if row.temperature >= _LEAST_TEMPERATURE]
    unordered = [index for index in drawn if not _needs_order(rows[index])]
    pending = [index for index in drawn if _needs_order(rows[index])]
    if unordered:
        chosen[unordered] = _draw(*_select(logits, largest, rows, unordered))
    result: list[int | RowFault] = [RowFault.NOT_A_NUMBER] * len(rows)
    for width in (*_SLICE_WIDTHS, logits.shape[1]):
        if pending:
            chosen[pending], settled[pending] = _draw_from_slice(
                *_select(logits, largest, rows, pending), min(width, logits.shape[1])
            )
        # One copy from the device, and another only where a slice was too narrow.
        table = torch.stack((chosen, largest.isfinite(), settled)).tolist()
        pending = []
        for index, (token_id, is_number, is_settled) in enumerate(zip(*table, strict=True)):
            if is_number and is_settled:
                result[index] = token_id
            elif is_number:
                pending.append(index)
        if not pending:
            break
    return result


def _needs_order(row: RowSampling) -> bool:
    return row.top_p < 1.0 or row.top_k is not None


def _ban(logits: torch.Tensor, rows: Sequence[RowSampling]) -> None:
    places = [
        (index, token_id) for index, row in enumerate(rows) for token_id in row.banned_token_ids
    ]
    if places:
        row_indices, token_ids = torch.tensor(places, device=logits.device).unbind(1)
        logits[row_indices, token_ids] = -torch.inf


def _select(
    logits: torch.Tensor,
    largest: torch.Tensor,
    rows: Sequence[RowSampling],
    indices: Sequence[int],
) -> tuple[torch.Tensor, torch.Tensor, Sequence[RowSampling]]:
    if len(indices) == len(rows):
        return logits, largest[:, None], rows
    places = torch.tensor(indices, device=logits.device)
    return logits[places], largest[places, None], [rows[index] for index in indices]


def _draw(logits: torch.Tensor, largest: torch.Tensor, rows: Sequence[RowSampling]) -> torch.Tensor:
    """Draw from all tokens but those that min-p drops."""
    scores = _scores(logits, largest, rows)
    if any(row.min_p > 0.0 for row in rows):
        scores.masked_fill_(scores < _least_scores(scores, rows), -torch.inf)
    token_ids = torch.arange(scores.shape[1], dtype=torch.int32, device=scores.device)
    return scores.add_(gumbel(_keys(scores, rows), token_ids)).argmax(dim=-1)


def _draw_from_slice(
    logits: torch.Tensor, largest: torch.Tensor, rows: Sequence[RowSampling], width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw looking at the `width` most likely tokens.

    Returns:
        The choices, and whether each is the one that all tokens would give.
    """
    vocabulary_size = logits.shape[1]
    ordered, token_ids = _most_likely(logits, width)
    scores = _scores(ordered, largest, rows)
    limits = [vocabulary_size if row.top_k is None else row.top_k for row in rows]
    limit = torch.tensor(limits, device=scores.device)[:, None]
    within = torch.arange(width, device=scores.device) < limit
    # Sums are float64, so that their order cannot move the boundary of top-p.
    weights = scores.exp().double()
    least_total = most_total = (weights * within).sum(dim=-1, keepdim=True)
    is_open = limit >= vocabulary_size
    if width == _SLICE_WIDTHS[0] < vocabulary_size:
        # A bound on what lies outside is mostly enough to see that it changes nothing.
        outside = (vocabulary_size - width) * weights[:, -1:]
        most_total = torch.where(is_open, least_total + outside, least_total)
    elif width < vocabulary_size and max(limits) >= vocabulary_size:
        total = _scores(logits, largest, rows).exp_().sum(-1, keepdim=True, dtype=torch.float64)
        least_total = most_total = torch.where(is_open, total, least_total)
    kept = within & _keeps(scores, weights, least_total, rows)
    noisy = scores.masked_fill(~kept, -torch.inf).add_(gumbel(_keys(scores, rows), token_ids))
    chosen = token_ids.gather(1, noisy.argmax(dim=-1, keepdim=True)).flatten().long()
    if width == vocabulary_size:
        return chosen, torch.ones_like(chosen, dtype=torch.bool)
    # Top-k must end inside, top-p be certain, and nothing outside be as likely as what is kept.
    settled = (is_open | (limit < width)).flatten()
    settled &= (kept == (within & _keeps(scores, weights, most_total, rows))).all(dim=-1)
    settled &= ordered.masked_fill(~kept, torch.inf).amin(dim=-1) > ordered[:, -1]
    return chosen, settled


def _most_likely(logits: torch.Tensor, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `width` largest logits, falling, with their ids; equals by rising id."""
    if width == logits.shape[1]:
        ordered, token_ids = logits.sort(dim=-1, descending=True, stable=True)
    else:
        # `topk` orders equals at will: put the slice in order of ids before it is sorted again.
        token_ids = logits.topk(width, sorted=False).indices.sort(dim=-1).values
        ordered, places = logits.gather(1, token_ids).sort(dim=-1, descending=True, stable=True)
        token_ids = token_ids.gather(1, places)
    return ordered, token_ids.int()


def _keeps(
    scores: torch.Tensor, weights: torch.Tensor, total: torch.Tensor, rows: Sequence[RowSampling]
) -> torch.Tensor:
    """Return which of the falling `scores` top-p and min-p keep, the first always."""
    before = weights.cumsum(dim=-1) - weights
    kept = before < total * _column(weights, [row.top_p for row in rows])
    kept &= scores >= _least_scores(scores, rows)
    kept[:, 0] = True
    return kept


def _scores(
    logits: torch.Tensor, largest: torch.Tensor, rows: Sequence[RowSampling]
) -> torch.Tensor:
    """Return logits over temperature, shifted so that the largest is 0."""
    return (logits - largest).div_(_column(logits, [row.temperature for row in rows]))


def _least_scores(scores: torch.Tensor, rows: Sequence[RowSampling]) -> torch.Tensor:
    """Return the least score that min-p keeps, [rows, 1]: the largest score is 0."""
    least = [math.log(row.min_p) if row.min_p > 0.0 else -math.inf for row in rows]
    return _column(scores, least)


def _keys(scores: torch.Tensor, rows: Sequence[RowSampling]) -> torch.Tensor:
    keys = [noise_keys(row.seed, row.position) for row in rows]
    return torch.tensor(keys, dtype=torch.int32, device=scores.device)


def _column(like: torch.Tensor, values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
