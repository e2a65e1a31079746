"""One step of the engine: the rows for the model with the sequences they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.engine.model_runner import BatchRow
    from headrace_server.engine.sequence import Sequence


@dataclass(slots=True, eq=False)
class Step:
    """What one step computes; `rows[i]` belongs to `sequences[i]`.

    Args:
        num_tokens: tokens that the step runs through the model.
    """

    rows: list[BatchRow] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)
    num_tokens: int = 0
    _void: set[int] = field(default_factory=set)
    _is_advanced: bool = False

    @property
    def can_be_followed(self) -> bool:
        """Whether the next step can be chosen while nobody knows what comes of this one."""
        return not any(
            row.prompt_logprobs is not None
            or (row.sampling is not None and row.sampling.needs_tokens_before)
            for row in self.rows
        )

    def add(self, sequence: Sequence, num_tokens: int) -> None:
        """Let the step compute the next `num_tokens` tokens of a sequence."""
        self.rows.append(sequence.row(num_tokens))
        self.sequences.append(sequence)
        self.num_tokens += num_tokens

    def drop(self, sequence: Sequence) -> None:
        """Whatever becomes of the row of a sequence, it counts no more."""
        if sequence in self.sequences:
            self._void.add(self.sequences.index(sequence))

    def live_indices(self) -> Iterator[int]:
        """Yield the indices of the rows that count."""
        return (index for index in range(len(self.rows)) if index not in self._void)

    def advance(self) -> None:
        """Let the sequences stand behind the step, if they do not yet; their tokens may follow."""
        if self._is_advanced:
            return
        self._is_advanced = True
        for index in self.live_indices():
            row, sequence = self.rows[index], self.sequences[index]
            sequence.num_computed_tokens += len(row.token_ids)
            sequence.awaited_row = None if row.sampling is None else index

    def known_rows(self) -> list[BatchRow]:
        """The rows that count, once the step before has been committed: none awaits a token."""
        return [_known(self.rows[index], self.sequences[index]) for index in self.live_indices()]


def _known(row: BatchRow, sequence: Sequence) -> BatchRow:
    if row.awaited_row is None:
        return row
    token_ids = sequence.token_ids[row.start : row.start + len(row.token_ids)]
    return replace(row, token_ids=token_ids, awaited_row=None)
