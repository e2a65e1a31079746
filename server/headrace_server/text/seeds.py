"""The seeds of requests that bring none."""

from __future__ import annotations

from random import Random, SystemRandom


class Seeds:
    """Draws a signed 64-bit seed for each request without one.

    Args:
        first: makes the seeds the same, in order, for every server that is started with it; None
            draws seeds that nobody can tell.
    """

    def __init__(self, first: int | None = None) -> None:
        # A caller may choose to be repeatable; nothing secret comes of it.
        self._random = SystemRandom() if first is None else Random(first)  # noqa: S311

    def draw(self) -> int:
        """Return the next seed."""
        return self._random.getrandbits(64) - 2**63
