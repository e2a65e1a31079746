"""The deltas of an answer with one candidate, flattened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_server.text.delta import AnswerDelta, Finish, Timing, Usage


@dataclass(frozen=True)
class OnlyDelta:
    """A delta with what is new of its one candidate."""

    text: str
    token_ids: tuple[int, ...]
    finish: Finish | None
    usage: Usage | None
    timing: Timing | None


def flatten(delta: AnswerDelta) -> OnlyDelta:
    """Take the one candidate out of a delta, which must have it."""
    [candidate] = delta.candidates
    assert candidate.candidate_index == 0
    return OnlyDelta(
        candidate.text, tuple(candidate.token_ids), candidate.finish, delta.usage, delta.timing
    )
