"""One measured row, and what several rounds of it come to."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one round measured of one peer.

    Args:
        part: which part of the comparison.
        case: which load of the part, in words.
        peer: whom.
        round_index: from 0.
        figures: by the keys of the metrics; empty where nothing was measured.
        problem: why nothing was measured, in one sentence; None where all went well.
    """

    part: str
    case: str
    peer: str
    round_index: int
    figures: Mapping[str, float] = field(default_factory=dict)
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The medians over the rounds of one peer and case.

    Args:
        spreads: least and largest value of each figure.
        problem: of the first round that had one; then the other rounds do not count.
    """

    part: str
    case: str
    peer: str
    num_rounds: int
    figures: Mapping[str, float]
    spreads: Mapping[str, tuple[float, float]]
    problem: str | None


def summarize(measurements: Iterable[Measurement]) -> tuple[Row, ...]:
    """One row for each part, case and peer, in the order in which they were first measured."""
    groups: dict[tuple[str, str, str], list[Measurement]] = {}
    for measurement in measurements:
        key = (measurement.part, measurement.case, measurement.peer)
        groups.setdefault(key, []).append(measurement)
    return tuple(_to_row(key, group) for key, group in groups.items())


def _to_row(key: tuple[str, str, str], group: Sequence[Measurement]) -> Row:
    part, case, peer = key
    problem = next((one.problem for one in group if one.problem is not None), None)
    if problem is not None:
        return Row(part, case, peer, len(group), {}, {}, problem)
    values = {name: [one.figures[name] for one in group] for name in group[0].figures}
    return Row(
        part,
        case,
        peer,
        len(group),
        figures={name: statistics.median(some) for name, some in values.items()},
        spreads={name: (min(some), max(some)) for name, some in values.items()},
        problem=None,
    )


def percentile(values: Iterable[float], fraction: float) -> float:
    """The nearest-rank percentile: the least value that at least this fraction does not exceed.

    Returns:
        0 where there are no values.
    """
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[max(math.ceil(fraction * len(ordered)) - 1, 0)]
