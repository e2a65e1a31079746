"""The signals to stop: the first lets running answers finish, a second one does not wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SAME_WISH_SECONDS = 0.5
"""How long a signal that comes again is the same wish. ``timeout`` of GNU sends each of its
signals to the program and then to its group, and so to the program twice.
"""


class StopSignals:
    """The signals that have come.

    Args:
        now: the time, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._first_times: dict[int, float] = {}

    def take(self, number: int) -> bool:
        """Take a signal and tell whether it says not to wait: that is the same one once more.

        `headrace serve` sends SIGUSR1, since its service manager may have sent SIGTERM to every
        process of the service, and one wish to stop is not to count twice.
        """
        now = self._now()
        return now - self._first_times.setdefault(number, now) > SAME_WISH_SECONDS
