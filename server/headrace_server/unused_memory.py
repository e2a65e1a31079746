"""Memory that a process has freed and its allocator keeps."""

from __future__ import annotations

import contextlib
import ctypes


def release_unused_memory() -> None:
    """Give back to the system what was freed, which after loading is tens of MiB.

    It takes milliseconds, and other Python threads run meanwhile. glibc alone has this.
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
