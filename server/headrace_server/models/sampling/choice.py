"""Chooses a token of each row of logits that are ready: no more is to be added to them.

Each row is tried in the cheapest way first, and in dearer ones where that leaves it open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING

import torch

from headrace_server.engine.model_runner import RowFault
from headrace_server.models.sampling.draws import Draws
from headrace_server.models.sampling.keeping import judge, judge_roughly
from headrace_server.models.sampling.ordered import draw_ordered
from headrace_server.models.sampling.race import Place, race
from headrace_server.models.sampling.verdict import Verdict
from headrace_server.models.transfers import Fetched, to_device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace_server.engine.model_runner import RowSampling
    from headrace_server.models.sampling.blocks import Blocks

# Below this the float32 quotient of a logit and the temperature can overflow.
_LEAST_TEMPERATURE = 1e-30

# Blocks that are looked into first, and where they are not enough.
_FEW_BLOCKS = 32
_MORE_BLOCKS = 128
_ALL_BLOCKS = 1 << 31

# Rows that are looked at as a whole at once; they stay in the cache of a CPU.
_NUM_WHOLE_ROWS = 16

# Rows that race at once on a CPU: so few that torch leaves each of the many small operations to
# one thread. Threads would meet a hundred times, and wait each time where they share their cores.
_NUM_RACING_ROWS = 15


class _Method(IntEnum):
    """How a row is tried."""

    GREEDY = 0
    ORDERED = 1
    ORDERED_OF_MORE = 2
    RACE = 3
    RACE_OF_MORE = 4
    RACE_OF_ALL = 5
    JUDGE = 6
    JUDGE_BY_ALL = 7


# Tokens that are looked at; the choice by top-k alone, so that no row depends on its neighbours.
_NUM_ORDERED = {_Method.ORDERED: 64, _Method.ORDERED_OF_MORE: 256}
_NUM_RACED = {
    _Method.RACE: _FEW_BLOCKS,
    _Method.RACE_OF_MORE: _MORE_BLOCKS,
    _Method.RACE_OF_ALL: _ALL_BLOCKS,
}
_NUM_JUDGED = {_Method.JUDGE: _MORE_BLOCKS, _Method.JUDGE_BY_ALL: _ALL_BLOCKS}

# What follows where another token could be better than the one that was found.
_WIDER = {
    _Method.ORDERED: _Method.RACE,
    _Method.ORDERED_OF_MORE: _Method.RACE,
    _Method.RACE: _Method.RACE_OF_MORE,
    _Method.RACE_OF_MORE: _Method.RACE_OF_ALL,
}


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A row whose token is not chosen yet.

    Args:
        index: of the row.
        method: how it is tried next.
        token_id: the token to judge; for a race, the one before which tokens take part, or the
            size of the vocabulary for all.
    """

    index: int
    method: _Method
    token_id: int


class Choice:
    """Chooses one token per row by temperature, top-k, top-p, min-p and noise.

    The first try is made at once, without waiting for the device.

    Args:
        blocks: the logits.
        rows: how to choose, one for each row of `blocks`, at least one.
    """

    def __init__(self, blocks: Blocks, rows: Sequence[RowSampling]) -> None:
        self._blocks = blocks
        self._rows = rows
        attempts = [
            _Attempt(index, _first_method(row), blocks.vocabulary_size)
            for index, row in enumerate(rows)
        ]
        self._tried, self._table = self._try(attempts)
        # One copy from the device, and another only where rows are left open.
        self._fetched = Fetched(self._table)

    def first_tokens(self) -> torch.Tensor:
        """Return what the first try has found, mostly the choice: int64 [rows], on the device."""
        places = to_device(torch.tensor([each.index for each in self._tried]), self._table.device)
        # Where there is no number, what is found may be no token.
        found = self._table[0].long().clamp_(0, self._blocks.vocabulary_size - 1)
        return torch.empty_like(found).index_copy_(0, places, found)

    def wait(self) -> tuple[list[int | RowFault], set[int]]:
        """Return the choices, and the rows for which the first try has found another token."""
        choices: list[int | RowFault] = [RowFault.NOT_A_NUMBER] * len(self._rows)
        fetched = self._fetched.wait()
        attempts = list(self._settle(choices, self._tried, fetched))
        found = dict(zip((each.index for each in self._tried), fetched[0], strict=True))
        left_open = [attempt.index for attempt in attempts]
        while attempts:
            tried, table = self._try(attempts)
            attempts = list(self._settle(choices, tried, table.tolist()))
        return choices, {index for index in left_open if choices[index] != found[index]}

    def _try(self, attempts: Sequence[_Attempt]) -> tuple[list[_Attempt], torch.Tensor]:
        """Return the attempts in the order of the columns of their results; see `_try`."""
        groups = list(_groups(attempts, self._blocks.largest.device))
        table = torch.cat([_try(self._blocks, self._rows, group) for group in groups], dim=1)
        return [attempt for group in groups for attempt in group], table

    def _settle(
        self,
        choices: list[int | RowFault],
        tried: Sequence[_Attempt],
        table: Sequence[Sequence[float]],
    ) -> Iterator[_Attempt]:
        """Put down what is chosen, and yield what is to be tried next."""
        for attempt, token_id, verdict, largest in zip(tried, *table, strict=True):
            if not math.isfinite(largest):
                choices[attempt.index] = _fault(self._rows[attempt.index], largest)
            elif verdict == Verdict.KEPT:
                choices[attempt.index] = int(token_id)
            else:
                yield _next(attempt, int(token_id), Verdict(int(verdict)))


def choose_tokens(blocks: Blocks, rows: Sequence[RowSampling]) -> list[int | RowFault]:
    """Choose one token per row; see `Choice`."""
    choices, _ = Choice(blocks, rows).wait()
    return choices


def _first_method(row: RowSampling) -> _Method:
    if row.temperature < _LEAST_TEMPERATURE:
        return _Method.GREEDY
    for method, num_tokens in _NUM_ORDERED.items():
        if row.top_k and row.top_k < num_tokens:
            return method
    return _Method.RACE


def _fault(row: RowSampling, largest: float) -> RowFault:
    if largest == -math.inf and (row.mask is not None or row.banned_token_ids):
        return RowFault.NOTHING_ALLOWED
    return RowFault.NOT_A_NUMBER


def _next(attempt: _Attempt, token_id: int, verdict: Verdict) -> _Attempt:
    if verdict is Verdict.DROPPED:
        return replace(attempt, method=_Method.RACE_OF_MORE, token_id=token_id)
    if verdict is Verdict.UNKNOWN:
        is_rough = attempt.method is _Method.RACE
        method = _Method.JUDGE if is_rough else _Method.JUDGE_BY_ALL
        return replace(attempt, method=method, token_id=token_id)
    return replace(attempt, method=_WIDER[attempt.method])


def _groups(attempts: Sequence[_Attempt], device: torch.device) -> Iterator[list[_Attempt]]:
    """Yield what can be tried together, rows in rising order."""
    ordered = sorted(attempts, key=lambda attempt: (attempt.method, attempt.index))
    for method, members in groupby(ordered, key=lambda attempt: attempt.method):
        group = list(members)
        size = len(group)
        if method > _Method.RACE:
            size = _NUM_WHOLE_ROWS
        elif method is _Method.RACE and device.type == "cpu":
            size = _NUM_RACING_ROWS
        for first in range(0, len(group), size):
            yield group[first : first + size]


def _try(blocks: Blocks, rows: Sequence[RowSampling], group: Sequence[_Attempt]) -> torch.Tensor:
    """Return token, verdict and largest logit of each row of a group, float64 [3, rows]."""
    blocks = blocks.select([attempt.index for attempt in group])
    token_ids, verdicts = _found(blocks, [rows[attempt.index] for attempt in group], group)
    columns = (token_ids, verdicts, blocks.largest)
    return torch.stack([column.flatten().double() for column in columns])  # ids are exact


def _found(
    blocks: Blocks, rows: Sequence[RowSampling], group: Sequence[_Attempt]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a token of each row of a group, and the verdict on it."""
    method, device = group[0].method, blocks.largest.device
    if method is _Method.GREEDY:
        token_ids = blocks.argmax()
        return token_ids, torch.full_like(token_ids, Verdict.KEPT)
    draws = Draws.of(rows, blocks.vocabulary_size, device)
    if method in _NUM_ORDERED:
        token_ids, is_settled = draw_ordered(blocks, draws, _NUM_ORDERED[method])
        return token_ids, torch.where(is_settled, Verdict.KEPT, Verdict.BEATABLE)
    token_ids = to_device(torch.tensor([attempt.token_id for attempt in group]), device)[:, None]
    if method in _NUM_JUDGED:
        place = Place.of(blocks, token_ids)
        return token_ids, judge(blocks, draws, place, _NUM_JUDGED[method])
    is_limited = any(attempt.token_id < blocks.vocabulary_size for attempt in group)
    end = Place.of(blocks, token_ids) if is_limited else None
    return _raced(blocks, draws, end, method)


def _raced(
    blocks: Blocks, draws: Draws, end: Place | None, method: _Method
) -> tuple[torch.Tensor, torch.Tensor]:
    winners, is_first = race(blocks, draws, end, _NUM_RACED[method])
    if not draws.has_top_p and not draws.largest_top_k:
        return winners, torch.where(is_first, Verdict.KEPT, Verdict.BEATABLE)
    place = Place.of(blocks, winners.long())
    if method is _Method.RACE and blocks.num_blocks > _FEW_BLOCKS:
        verdicts = judge_roughly(blocks, draws, place, _FEW_BLOCKS)
    else:
        verdicts = judge(blocks, draws, place, _MORE_BLOCKS)
    return winners, torch.where(is_first, verdicts, Verdict.BEATABLE)
