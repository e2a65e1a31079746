"""The queue for the batch: priorities, turns of the callers, and first come, first served."""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.engine.sequence import Sequence


class WaitingQueue:
    """Sequences that could run and wait until they may.

    A higher priority goes first. Within one, what was in the batch before goes first, and then the
    callers take turns: next is the caller for whom the fewest tokens have been computed. Each
    caller's own sequences go in the order in which they came.
    """

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._num_sequences = 0

    def __len__(self) -> int:
        return self._num_sequences

    def __iter__(self) -> Iterator[Sequence]:
        for lane in self._lanes.values():
            yield from lane

    @property
    def head(self) -> Sequence | None:
        """The sequence whose turn it is."""
        return self._lanes[max(self._lanes)].head if self._lanes else None

    def in_turn(self) -> Iterator[Sequence]:
        """Yield the head and those behind it in the order of their turns, of the same priority."""
        if self._lanes:
            yield from self._lanes[max(self._lanes)].in_turn()

    def push(self, sequence: Sequence) -> None:
        """Let a sequence wait."""
        self._lanes.setdefault(sequence.request.priority, _Lane()).push(sequence)
        self._num_sequences += 1

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, whether it goes into the batch or has ended."""
        priority = sequence.request.priority
        self._lanes[priority].remove(sequence)
        self._num_sequences -= 1
        if self._lanes[priority].is_empty:
            del self._lanes[priority]

    def charge(self, sequence: Sequence, num_tokens: int) -> None:
        """Count tokens computed for a sequence against its caller, if others of it wait."""
        lane = self._lanes.get(sequence.request.priority)
        if lane is not None:
            lane.charge(sequence.request.caller, num_tokens)


@dataclass(slots=True, eq=False)
class _Caller:
    """A caller with sequences that wait.

    Args:
        level: tokens computed since the caller came, on top of the least level at that time.
        turn: when it came or had its turn; unique.
        sequences: in order of arrival.
    """

    level: int
    turn: int
    sequences: list[Sequence] = field(default_factory=list)


class _Lane:
    """What waits with the same priority.

    A caller that comes starts level with the one whose turn it is, and behind it: it is neither
    owed anything for the time before nor held to account for it. So the first sequence of a caller
    waits for about one of each other caller, however many those have.
    """

    def __init__(self) -> None:
        self._preempted: list[Sequence] = []
        self._callers: dict[str, _Caller] = {}
        self._turn_numbers = itertools.count()

    def __iter__(self) -> Iterator[Sequence]:
        yield from self._preempted
        for caller in self._callers.values():
            yield from caller.sequences

    def in_turn(self) -> Iterator[Sequence]:
        yield from self._preempted
        for caller in sorted(self._callers.values(), key=_standing):
            yield from caller.sequences

    @property
    def is_empty(self) -> bool:
        return not self._preempted and not self._callers

    @property
    def head(self) -> Sequence:
        """The sequence whose turn it is; the lane must not be empty."""
        return self._preempted[0] if self._preempted else self._next_caller().sequences[0]

    def push(self, sequence: Sequence) -> None:
        if sequence.admission is not None:
            insort(self._preempted, sequence, key=_admission)
            return
        name = sequence.request.caller
        caller = self._callers.get(name)
        if caller is None:
            level = self._next_caller().level if self._callers else 0
            caller = self._callers[name] = _Caller(level, next(self._turn_numbers))
        insort(caller.sequences, sequence, key=_arrival)

    def remove(self, sequence: Sequence) -> None:
        if sequence.admission is not None:
            self._preempted.remove(sequence)
            return
        name = sequence.request.caller
        sequences = self._callers[name].sequences
        del sequences[bisect_left(sequences, sequence.arrival, key=_arrival)]
        if not sequences:
            del self._callers[name]

    def charge(self, name: str, num_tokens: int) -> None:
        caller = self._callers.get(name)
        if caller is not None:
            caller.level += num_tokens
            caller.turn = next(self._turn_numbers)

    def _next_caller(self) -> _Caller:
        return min(self._callers.values(), key=_standing)


_arrival = attrgetter("arrival")
_admission = attrgetter("admission")
_standing = attrgetter("level", "turn")
