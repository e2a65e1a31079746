"""What the machine can do at most: how fast it reads memory, and how fast it multiplies.

A step that makes one token for each stream reads all weights once, so the bytes of the weights
divided by the bandwidth bound it from below; the products of a prompt are bound by the
multiply-adds.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from headrace_server.models.kernels.build import find_compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_READ_BYTES = 1 << 30  # far more than any cache holds
_NUM_TRIES = 7
_PEAK_SOURCE = Path(__file__).parent / "peak.cpp"
_PEAK_FLAGS = ("-O3", "-std=c++17", "-march=native", "-fopenmp")
_PEAK_TIMEOUT_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Floors:
    """The best of several tries, with all cores.

    Args:
        read_bytes_per_second: of a sum over an array that no cache holds.
        fp32_multiply_adds: per second, on numbers in registers; None without a C++ compiler.
        int8_multiply_adds: the same of bytes; None where the CPU has no instruction for it.
    """

    read_bytes_per_second: float
    fp32_multiply_adds: float | None
    int8_multiply_adds: float | None
    num_threads: int

    def __str__(self) -> str:
        parts = [f"memory read {self.read_bytes_per_second / 1e9:.1f} GB/s"]
        for name, rate in (("fp32", self.fp32_multiply_adds), ("int8", self.int8_multiply_adds)):
            if rate is not None:
                parts.append(f"{name} {rate / 1e9:.0f} billion multiply-adds/s")
        return ", ".join(parts)


def measure_floors() -> Floors:
    """Measure for about ten seconds."""
    array = torch.ones(_READ_BYTES // 4, dtype=torch.float32)
    read_seconds = _least_seconds(array.sum)
    del array
    peaks = _measure_peaks()
    return Floors(
        read_bytes_per_second=_READ_BYTES / read_seconds,
        fp32_multiply_adds=peaks.get("fp32"),
        int8_multiply_adds=peaks.get("int8"),
        num_threads=torch.get_num_threads(),
    )


def _measure_peaks() -> Mapping[str, float]:
    compiler = find_compiler()
    if compiler is None:
        return {}
    with tempfile.TemporaryDirectory() as directory:
        program = str(Path(directory) / "peak")
        compile_it = [*shlex.split(compiler), *_PEAK_FLAGS, str(_PEAK_SOURCE), "-o", program]
        for command in (compile_it, [program]):
            result = subprocess.run(
                command, capture_output=True, text=True, timeout=_PEAK_TIMEOUT_SECONDS, check=True
            )
    lines = (line.split() for line in result.stdout.splitlines())
    return {name: float(rate) for name, rate in lines}


def _least_seconds(work: Callable[[], object]) -> float:
    least = float("inf")
    for _ in range(_NUM_TRIES):
        begin = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begin)
    return least
