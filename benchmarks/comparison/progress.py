"""Tells a person what runs now, how far it is, and how long it will still take."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comparison.history import History
    from comparison.plan import Step, Visit


class Progress:
    """Writes one line for each step to stderr.

    Args:
        history: what the remaining time is estimated with.
        num_rounds: most rounds.
    """

    def __init__(self, history: History, num_rounds: int) -> None:
        self._history = history
        self._num_rounds = num_rounds
        self._round = 0
        self._visits: list[Visit] = []
        self._num_steps = 0
        self._num_done = 0

    def begin_round(self, round_index: int, visits: Sequence[Visit]) -> None:
        """A round with these visits begins."""
        self._round = round_index + 1
        self._visits = list(visits)
        self._num_steps = sum(len(visit.steps) for visit in visits)
        self._num_done = 0
        self.say(
            f"round {self._round} of at most {self._num_rounds}: {self._num_steps} steps, "
            f"{_minutes(self._history.seconds_of(visits))}"
        )

    def begin_step(self, name: str, step: Step) -> float:
        """A step begins; returns the time for `end_step`."""
        self._num_done += 1
        self._write(f"[{self._num_done}/{self._num_steps}] {name}: {step.part}, {step.case} … ")
        return time.perf_counter()

    def end_step(self, name: str, step: Step, begin: float, result: str) -> None:
        """A step has ended with a result in a few words."""
        self._forget(name, step)
        left = _minutes(self._history.seconds_of(self._visits))
        self._write(f"{result} ({time.perf_counter() - begin:.1f} s; {left} left in this round)\n")

    def say(self, text: str) -> None:
        """Write one line."""
        self._write(f"{text}\n")

    def _forget(self, name: str, step: Step) -> None:
        for index, visit in enumerate(self._visits):
            if visit.name == name and step in visit.steps:
                rest = tuple(one for one in visit.steps if one != step)
                self._visits[index : index + 1] = [visit.with_steps(rest)] if rest else []
                return

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
