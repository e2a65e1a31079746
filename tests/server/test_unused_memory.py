"""What was freed goes back to the system."""

import os
import platform
from pathlib import Path

import pytest

from headrace_server.unused_memory import release_unused_memory

CHUNK_BYTES = 64 << 10  # small enough that the allocator does not return it at once
NUM_CHUNKS = 2_000
KEPT = slice(None, None, 100)  # so that what is free lies between what is not


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_what_was_freed_goes_back_to_the_system():
    """Most of what lies free between what is in use is no longer resident."""
    chunks = [b"x" * CHUNK_BYTES for _ in range(NUM_CHUNKS)]
    kept = chunks[KEPT]
    del chunks
    before = resident_bytes()
    release_unused_memory()
    assert before - resident_bytes() > CHUNK_BYTES * NUM_CHUNKS / 2
    assert len(kept) == len(range(NUM_CHUNKS)[KEPT])
