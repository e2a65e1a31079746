"""The sequences that cannot run yet: their constraint or the prompt they share is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.engine.sequence import Sequence


class HeldSequences:
    """Sequences beside the queue, in order of arrival. They hold nobody up."""

    def __init__(self) -> None:
        self._sequences: dict[int, Sequence] = {}

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._sequences.values())

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence.sequence_id in self._sequences

    def add(self, sequence: Sequence) -> None:
        """Hold a sequence until it is ready."""
        self._sequences[sequence.sequence_id] = sequence

    def take_ready(self) -> list[Sequence]:
        """Take out those that may run now."""
        ready = [sequence for sequence in self if sequence.is_ready]
        for sequence in ready:
            del self._sequences[sequence.sequence_id]
        return ready

    def remove(self, sequence: Sequence) -> None:
        """Take out a sequence that has ended, and let its constraint be compiled no further."""
        del self._sequences[sequence.sequence_id]
        if sequence.pending_constraint is not None:
            sequence.pending_constraint.cancel()

    def replace_leader(self, ended: Sequence) -> None:
        """Let the first that waited for a prompt compute it, as its sequence has ended early."""
        followers = [sequence for sequence in self if sequence.leader is ended]
        for follower in followers:
            follower.leader = None if follower is followers[0] else followers[0]
