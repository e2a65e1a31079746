"""The line that tells how far a run is, at a terminal."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.cli.bench.recording import Run

_PERIOD_SECONDS = 0.25
_CLEAR_LINE = "\r\x1b[K"


@asynccontextmanager
async def shown_progress(run: Run, num_requests: int) -> AsyncIterator[None]:
    """Show during the body how many requests are over."""
    if not sys.stderr.isatty():
        yield
        return
    showing = asyncio.create_task(_show(run, num_requests))
    try:
        yield
    finally:
        showing.cancel()
        _write(_CLEAR_LINE)


async def _show(run: Run, num_requests: int) -> None:
    while True:
        _write(f"{_CLEAR_LINE}{run.num_over} of {num_requests} requests, {run.seconds:.0f} s")
        await asyncio.sleep(_PERIOD_SECONDS)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
