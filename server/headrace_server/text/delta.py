"""The front's own types of an answer: its pieces, its end and its counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.text.logprobs import TextLogprobs


class FinishReason(Enum):
    """Why a candidate ended; the names are those of the contract."""

    END_OF_TEXT = "end_of_text"
    STOP_SEQUENCE = "stop_sequence"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    CONTEXT_LENGTH = "context_length"
    TIME_LIMIT = "time_limit"
    TOOL_CALLS = "tool_calls"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a candidate; at most one of the two matches is set."""

    reason: FinishReason
    stop_sequence: str | None = None
    stop_token_id: int | None = None


@dataclass(frozen=True, slots=True)
class ToolCallPiece:
    """A new piece of one call of a tool.

    Args:
        index: that of the call in its candidate, from 0.
        id: with the first piece only; else empty.
        name: with the first piece only; else empty.
        arguments: the next characters of the arguments.
    """

    index: int
    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CandidateDelta:
    """A new piece of one candidate.

    Args:
        candidate_index: from 0.
        text: valid Unicode; incomplete characters and possible stop prefixes are
            held back.
        token_ids: the ids made since the delta before.
        logprobs: one per id, where they are wanted.
        finish: with the last piece only.
        reasoning: what the model thought before the text, valid Unicode.
        tool_calls: pieces of calls, after the text.
    """

    candidate_index: int
    text: str
    token_ids: Sequence[int]
    logprobs: Sequence[TextLogprobs] = ()
    finish: Finish | None = None
    reasoning: str = ""
    tool_calls: Sequence[ToolCallPiece] = ()


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """How the prompt was read: its tokens, and those among them that were found in the cache."""

    token_count: int
    cached_token_count: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of an answer; output and reasoning, a part of it, are of all candidates."""

    prompt_token_count: int
    output_token_count: int
    reasoning_token_count: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations since arrival; `first_token_seconds` is None when no token was made."""

    queue_seconds: float
    first_token_seconds: float | None
    total_seconds: float


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """A new piece of an answer.

    Args:
        candidates: those with something new, in order; empty beside `prompt_logprobs`.
        prompt: with the first piece only.
        prompt_logprobs: the next ones of the prompt's tokens in order, where they are wanted,
            before any candidate.
        usage: with the last piece only.
        timing: with the last piece only.
    """

    candidates: Sequence[CandidateDelta] = ()
    prompt: PromptInfo | None = None
    prompt_logprobs: Sequence[TextLogprobs] = ()
    usage: Usage | None = None
    timing: Timing | None = None
