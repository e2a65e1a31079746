"""The results as text."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from comparison import part
from comparison.metric import GRID_METRICS, Metric
from comparison.parts import interference, repeated_prompt, serving_cost, start, transport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from comparison.measurement import Row

_LIST_METRICS = {
    part.REPEAT: ("A prompt sent twice", repeated_prompt.METRICS),
    part.INTERFERENCE: ("Running answers while long prompts arrive", interference.METRICS),
    part.START: ("Start", start.METRICS),
    part.TRANSPORT: ("Headrace's fronts with a simulated engine", transport.METRICS),
}
_NUM_ROUNDS_TITLE = "rounds"
_MAX_PROBLEM_CHARACTERS = 90


def render(rows: Sequence[Row], rivals: Collection[str]) -> str:
    """All tables that there are rows for.

    Args:
        rows: of all parts.
        rivals: the names of the peers that are not Headrace.
    """
    tables = []
    cells = [row for row in rows if row.part == part.GRID]
    if cells:
        title = "Medians; x is how many times better than the best rival at that load"
        tables.append(f"{title}\n{_layout(_grid_lines(cells, rivals))}")
    for name, (title, metrics) in _LIST_METRICS.items():
        some = [row for row in rows if row.part == name]
        if some:
            tables.append(f"{title}\n{_layout(_list_lines(some, metrics))}")
    fronts = [row for row in rows if row.part == part.SERVING]
    if fronts:
        title = f"Headrace's fronts, {serving_cost.CELL.name}"
        tables.append(f"{title}\n{_layout(_front_lines(fronts))}")
    return "\n\n".join(tables)


def _grid_lines(rows: Sequence[Row], rivals: Collection[str]) -> list[list[str]]:
    titles = ["prompt, streams", "peer"]
    for metric in GRID_METRICS:
        titles += [metric.title, "x"]
    lines = [[*titles, _NUM_ROUNDS_TITLE]]
    for case in dict.fromkeys(row.case for row in rows):
        same = [row for row in rows if row.case == case]
        for row in same:
            line = ["" if row is not same[0] else case, row.peer]
            if row.problem is not None:
                lines.append([*line, _short(row.problem)])
                continue
            for metric in GRID_METRICS:
                value = row.figures[metric.key]
                best = best_of(same, rivals, metric)
                ratio = "" if best is None else f"{metric.ratio(value, best):.2f}"
                line += [metric.show(value), ratio]
            lines.append([*line, str(row.num_rounds)])
    return lines


def best_of(rows: Iterable[Row], rivals: Collection[str], metric: Metric) -> float | None:
    """The best figure of the rivals in some rows; None where none of them has one."""
    values = [
        row.figures[metric.key] for row in rows if row.peer in rivals and metric.key in row.figures
    ]
    return metric.best(values) if values else None


def _list_lines(rows: Sequence[Row], metrics: Sequence[Metric]) -> list[list[str]]:
    lines = [["case", "peer", *(metric.title for metric in metrics), _NUM_ROUNDS_TITLE]]
    for row in rows:
        line = [row.case, row.peer]
        if row.problem is not None:
            lines.append([*line, _short(row.problem)])
            continue
        line += [metric.show(row.figures[metric.key]) for metric in metrics]
        lines.append([*line, str(row.num_rounds)])
    return lines


def _front_lines(rows: Sequence[Row]) -> list[list[str]]:
    rate, share = serving_cost.METRICS
    lines = [["variant", "front", rate.title, share.title, _NUM_ROUNDS_TITLE]]
    engines = {
        row.case: row.figures.get(rate.key) for row in rows if row.peer == serving_cost.ENGINE
    }
    for row in rows:
        if row.problem is not None:
            lines.append([row.case, row.peer, _short(row.problem)])
            continue
        value, engine = row.figures[rate.key], engines.get(row.case)
        shown = share.show(value / engine) if engine else ""
        lines.append([row.case, row.peer, rate.show(value), shown, str(row.num_rounds)])
    return lines


def _short(problem: str) -> str:
    """The JSON has all of it."""
    return textwrap.shorten(problem, _MAX_PROBLEM_CHARACTERS, placeholder=" …")


def _layout(lines: Sequence[Sequence[str]]) -> str:
    """Align columns: the first two to the left, figures to the right; what is too long runs on."""
    num_columns = len(lines[0])
    full = [line for line in lines if len(line) == num_columns]
    widths = [max(len(line[index]) for line in full) for index in range(num_columns)]
    widths[:2] = [max(len(line[index]) for line in lines) for index in range(2)]
    texts = []
    for line in lines:
        left = [text.ljust(width) for text, width in zip(line[:2], widths, strict=False)]
        if len(line) < num_columns:
            right = list(line[2:])
        else:
            right = [text.rjust(width) for text, width in zip(line[2:], widths[2:], strict=True)]
        texts.append("  ".join([*left, *right]).rstrip())
    return "\n".join(texts)
