"""The parts of the comparison by name."""

from __future__ import annotations

from typing import Final

GRID: Final = "grid"
REPEAT: Final = "repeat"
INTERFERENCE: Final = "interference"
START: Final = "start"
SERVING: Final = "serving"
TRANSPORT: Final = "transport"

PARTS: Final = (GRID, REPEAT, INTERFERENCE, START, SERVING, TRANSPORT)
