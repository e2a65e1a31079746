"""One step of the engine: the rows for the model with the sequences they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_server.engine.model_runner import BatchRow
    from headrace_server.engine.sequence import Sequence


@dataclass(slots=True)
class Step:
    """What one step computes; `rows[i]` belongs to `sequences[i]`.

    Args:
        num_tokens: tokens that the step runs through the model.
    """

    rows: list[BatchRow] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)
    num_tokens: int = 0

    def add(self, sequence: Sequence, num_tokens: int) -> None:
        """Let the step compute the next `num_tokens` tokens of a sequence."""
        self.rows.append(sequence.row(num_tokens))
        self.sequences.append(sequence)
        self.num_tokens += num_tokens
