"""The main part: every length of prompt with every number of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from comparison import metric

if TYPE_CHECKING:
    from comparison.cell import Cell
    from comparison.parts.context import Context


async def measure_cell(context: Context, cell: Cell) -> dict[str, float]:
    """Throughput, latencies and memory under one load, after a warm-up."""
    await context.warm_up(f"grid {cell.name}", cell.num_streams)
    load, peak_bytes = await context.run("grid", cell)
    return load.figures() | {metric.MEMORY.key: float(peak_bytes)}
