"""What is measured, with its unit and its better direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure.

    Args:
        key: its name in the JSON, with the unit.
        title: its name in tables, with the shown unit.
        scale: shown is the figure times this.
        decimals: of the shown figure.
        is_better_high: else low is better.
    """

    key: str
    title: str
    scale: float
    decimals: int
    is_better_high: bool

    def show(self, value: float) -> str:
        """The figure as text."""
        return f"{value * self.scale:,.{self.decimals}f}"

    def ratio(self, value: float, reference: float) -> float:
        """How many times better than the reference; above 1 is better."""
        above, below = (value, reference) if self.is_better_high else (reference, value)
        return above / below if below else float("inf")

    def best(self, values: list[float]) -> float:
        """The best of some figures."""
        return max(values) if self.is_better_high else min(values)


TOKENS_PER_SECOND: Final = Metric("tokens_per_second", "tokens/s", 1.0, 1, is_better_high=True)
TTFT: Final = Metric("ttft_seconds", "TTFT ms", 1e3, 0, is_better_high=False)
TPOT: Final = Metric("tpot_seconds", "TPOT ms", 1e3, 1, is_better_high=False)
GAP_P99: Final = Metric("gap_p99_seconds", "p99 gap ms", 1e3, 0, is_better_high=False)
MEMORY: Final = Metric("peak_memory_bytes", "peak MiB", 2.0**-20, 0, is_better_high=False)

GRID_METRICS: Final = (TOKENS_PER_SECOND, TTFT, TPOT, GAP_P99, MEMORY)
