"""How much memory this process may still take."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_CGROUP = Path("/sys/fs/cgroup")


def available_bytes(device: torch.device) -> int:
    """Return what can be taken on `device` without swapping or being killed, in bytes."""
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return free
    return min(_cpu_limits(), default=_physical_bytes())


def gibibytes(num_bytes: int) -> str:
    """Say a size to a person."""
    return f"{num_bytes / (1 << 30):.2f} GiB"


def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _cpu_limits() -> Iterator[int]:
    """Yield what the machine has left (Linux) and what its container may still take."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
    try:
        limit = (_CGROUP / "memory.max").read_text().strip()
        used = int((_CGROUP / "memory.current").read_text())
        statistics = dict(
            line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines()
        )
    except (OSError, ValueError):
        return
    if limit != "max":
        # Pages of files are counted as used but are given back under pressure.
        yield max(int(limit) - used + int(statistics.get("inactive_file", "0")), 0)
