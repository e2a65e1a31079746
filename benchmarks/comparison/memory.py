"""The memory of a server: all its processes, watched while it works."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_INTERVAL_SECONDS = 0.2


def process_tree(pids: Iterable[int]) -> list[psutil.Process]:
    """The processes and all that they started, without those that have ended."""
    processes: dict[int, psutil.Process] = {}
    for pid in pids:
        try:
            root = psutil.Process(pid)
            processes |= {one.pid: one for one in (root, *root.children(recursive=True))}
        except psutil.NoSuchProcess:
            continue
    return list(processes.values())


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes and of all that they started.

    Pages that several of them share count once for each.
    """
    total = 0
    for process in process_tree(pids):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


class MemoryWatch:
    """Notes the peak of the resident memory while it is open."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory watch")
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._note()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._note()

    def _watch(self) -> None:
        while not self._ended.wait(_INTERVAL_SECONDS):
            self._note()

    def _note(self) -> None:
        self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pids))
