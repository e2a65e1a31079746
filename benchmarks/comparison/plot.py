"""The picture: each figure of the grid over the number of streams."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from comparison import part
from comparison.metric import GAP_P99, MEMORY, TOKENS_PER_SECOND, TPOT, TTFT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from comparison.measurement import Row
    from comparison.metric import Metric

_METRICS = (TOKENS_PER_SECOND, TTFT, TPOT, GAP_P99, MEMORY)
_MINOR_TICKS = (2, 5)  # of a power of ten; all eight would overlap
_CASE = re.compile(r"(\d+) tokens, (\d+) streams?")


class PlotError(Exception):
    """There is nothing to draw, or nothing to draw with."""


def draw(rows: Sequence[Row], rivals: Collection[str], target: Path) -> None:
    """Write a PNG with one column for each prompt length and one row for each metric.

    Headrace has full lines, the others broken ones.

    Raises:
        PlotError: matplotlib is not installed, or nothing of the grid was measured.
    """
    points = [(*_load_of(row), row) for row in rows if row.part == part.GRID and row.figures]
    if not points:
        raise PlotError("nothing of the grid was measured")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotError(
            "matplotlib is not installed; run `pip install -c constraints.txt --group bench`"
        ) from None
    prompts = sorted({num_tokens for num_tokens, _, _ in points})
    names = list(dict.fromkeys(row.peer for _, _, row in points))
    figure = Figure(figsize=(5.5 * len(prompts), 2.6 * len(_METRICS)), layout="constrained")
    axes = figure.subplots(len(_METRICS), len(prompts), squeeze=False, sharex=True)
    for column, num_tokens in enumerate(prompts):
        axes[0][column].set_title(f"prompts of {num_tokens} tokens")
        axes[-1][column].set_xlabel("concurrent streams")
        for line, metric in enumerate(_METRICS):
            for index, name in enumerate(names):
                _draw_line(
                    axes[line][column],
                    metric,
                    [(count, row) for tokens, count, row in points if tokens == num_tokens],
                    name,
                    color=f"C{index}",
                    is_rival=name in rivals,
                )
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(target, dpi=120)


def _draw_line(
    axis: Axes,
    metric: Metric,
    points: Sequence[tuple[int, Row]],
    name: str,
    *,
    color: str,
    is_rival: bool,
) -> None:
    own = sorted((count, row) for count, row in points if row.peer == name)
    axis.plot(
        [count for count, _ in own],
        [row.figures[metric.key] * metric.scale for _, row in own],
        marker="o",
        linestyle="--" if is_rival else "-",
        linewidth=1.2 if is_rival else 2.2,
        color=color,
        label=name,
    )
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", subs=_MINOR_TICKS)
    axis.set_ylabel(metric.title)
    counts = sorted({count for count, _ in points})
    axis.set_xticks(counts, [str(count) for count in counts])
    # Plain numbers in place of powers of ten.
    axis.yaxis.set_major_formatter("{x:,g}")
    axis.yaxis.set_minor_formatter("{x:,g}")
    axis.tick_params(axis="y", which="both", labelsize=8)
    axis.grid(visible=True, alpha=0.3)


def _load_of(row: Row) -> tuple[int, int]:
    match = _CASE.fullmatch(row.case)
    assert match is not None, row.case
    return int(match[1]), int(match[2])
