"""What the run has taught: how long each step takes, and which ones are hopeless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comparison.plan import Step, Visit

# A load that takes longer is an average over thousands of tokens; another round adds little.
# Where the time does not suffice for all that are shorter, the shortest are repeated.
_LONGEST_REPEATED_SECONDS: Final = (20.0, 10.0, 5.0)
GUESS_START_SECONDS: Final = 12.0


class History:
    """Durations and problems by peer and step."""

    def __init__(self) -> None:
        self._guesses: dict[tuple[str, str, str], float] = {}
        self._seconds: dict[tuple[str, str, str], float] = {}
        self._start_seconds: dict[str, float] = {}
        self._problems: list[tuple[str, Step]] = []

    def note_start(self, peer: str, seconds: float) -> None:
        """A server has started."""
        self._start_seconds[peer] = seconds

    def note_seconds(self, peer: str, step: Step, seconds: float) -> None:
        """A step took this long, whatever came of it."""
        self._seconds[peer, step.part, step.case] = seconds
        self._guesses[peer, step.part, step.case] = step.guess_seconds

    def note_problem(self, peer: str, step: Step) -> None:
        """A step came to nothing."""
        self._problems.append((peer, step))

    def is_hopeless(self, peer: str, step: Step) -> bool:
        """Whether this load, or one that is no heavier, came to nothing before."""
        return any(name == peer and _is_at_least(step, failed) for name, failed in self._problems)

    def worth_repeating(self, visits: Sequence[Visit], available_seconds: float) -> list[Visit]:
        """What a further round should measure again: neither long nor hopeless.

        Returns:
            nothing where not even the shortest steps fit into the time.
        """
        for longest_seconds in _LONGEST_REPEATED_SECONDS:
            shorter = [
                visit.with_steps(
                    step
                    for step in visit.steps
                    if not self.is_hopeless(visit.name, step)
                    and self._seconds_of(visit.name, step) <= longest_seconds * step.num_loads
                )
                for visit in visits
            ]
            again = [visit for visit in shorter if visit.steps]
            if self.seconds_of(again) <= available_seconds:
                return again
        return []

    def seconds_of(self, visits: Sequence[Visit]) -> float:
        """How long visits will take: as measured, or else guessed at the pace of their peer."""
        return sum(
            self._start_seconds.get(visit.name, GUESS_START_SECONDS)
            + sum(self._seconds_of(visit.name, step) for step in visit.steps)
            for visit in visits
        )

    def _seconds_of(self, peer: str, step: Step) -> float:
        measured = self._seconds.get((peer, step.part, step.case))
        return step.guess_seconds * self._pace(peer) if measured is None else measured

    def _pace(self, peer: str) -> float:
        """How many times longer than guessed the steps of this peer took, or else of all."""
        own = [key for key in self._seconds if key[0] == peer]
        known = own or list(self._seconds)
        guessed = sum(self._guesses[key] for key in known)
        return sum(self._seconds[key] for key in known) / guessed if guessed else 1.0


def _is_at_least(step: Step, other: Step) -> bool:
    if step.part != other.part:
        return False
    if step.cell is None or other.cell is None:
        return step.case == other.case
    return step.cell.is_at_least(other.cell)
