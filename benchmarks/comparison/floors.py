"""What the machine can do at most: how fast it reads memory, and how fast it multiplies.

A step that makes one token for each stream reads all weights once, so the bytes of the weights
divided by the bandwidth bound it from below; the products of a prompt are bound by the other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

_READ_BYTES = 1 << 30  # far more than any cache holds
_PRODUCT_SIZES = (1024, 2048)
_NUM_TRIES = 7


@dataclass(frozen=True, slots=True)
class Floors:
    """The best of several tries, with all cores.

    Args:
        read_bytes_per_second: of a sum over an array that no cache holds.
        fp32_flops: floating-point operations per second of a large fp32 product; what a
            library reaches, which is some percent below what the units could do.
    """

    read_bytes_per_second: float
    fp32_flops: float
    num_threads: int


def measure_floors() -> Floors:
    """Measure for about ten seconds."""
    array = torch.ones(_READ_BYTES // 4, dtype=torch.float32)
    read_seconds = _least_seconds(array.sum)
    del array
    return Floors(
        read_bytes_per_second=_READ_BYTES / read_seconds,
        fp32_flops=max(_product_flops(size) for size in _PRODUCT_SIZES),
        num_threads=torch.get_num_threads(),
    )


def _product_flops(size: int) -> float:
    left, right, product = (torch.rand(size, size) for _ in range(3))
    seconds = _least_seconds(lambda: torch.mm(left, right, out=product))
    return 2.0 * size**3 / seconds


def _least_seconds(work: Callable[[], object]) -> float:
    least = float("inf")
    for _ in range(_NUM_TRIES):
        begin = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - begin)
    return least
