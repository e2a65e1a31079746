"""What the client returns: answers, their pieces, and the facts of models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


class FinishReason(StrEnum):
    """Why an answer ended.

    Attributes:
        END_OF_TEXT: the model said that it is done.
        STOP_SEQUENCE: a stop of the request appeared; `Finish` names it.
        MAX_OUTPUT_TOKENS: `max_output_tokens` was reached.
        CONTEXT_LENGTH: the context of the model is full.
        TIME_LIMIT: `max_seconds` passed.
        UNKNOWN: a reason newer than this client.
    """

    END_OF_TEXT = "end_of_text"
    STOP_SEQUENCE = "stop_sequence"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    CONTEXT_LENGTH = "context_length"
    TIME_LIMIT = "time_limit"
    UNKNOWN = "unknown"


class Capability(StrEnum):
    """What a model can do: continue text and token ids, or answer a conversation."""

    COMPLETION = "completion"
    CHAT = "chat"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an answer; with `STOP_SEQUENCE` one of the two stops is set."""

    reason: FinishReason
    stop_sequence: str | None = None
    stop_token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer.

    Args:
        text: the new text, whole characters only.
        token_ids: the new token ids.
        finish: the end of the answer, with its last piece only.
    """

    text: str
    token_ids: tuple[int, ...]
    finish: Finish | None


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of an answer; the end-of-text token is counted."""

    prompt_token_count: int
    output_token_count: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Where the time went, measured by the server from the arrival of the request.

    Args:
        queue_seconds: until the engine began.
        first_token_seconds: until the first token; None when none was made.
        total_seconds: until the end of the answer.
    """

    queue_seconds: float
    first_token_seconds: float | None
    total_seconds: float


@dataclass(frozen=True, slots=True)
class Generation:
    """A whole answer.

    Args:
        text: the text; empty with ``output_text=False``.
        token_ids: the token ids; empty with ``output_token_ids=False``.
        finish: why it ended.
        usage: how many tokens it took.
        timing: how long it took.
        request_id: the server's own id of the request; None when it gave none.
    """

    text: str
    token_ids: tuple[int, ...]
    finish: Finish
    usage: Usage
    timing: Timing
    request_id: str | None = None

    @property
    def finish_reason(self) -> FinishReason:
        """Why the answer ended; `finish` tells which stop it was."""
        return self.finish.reason


@dataclass(frozen=True, slots=True)
class Tokenization:
    """A prompt in tokens.

    Args:
        token_ids: the token ids.
        text: what was tokenized, for a conversation the rendered template; None for
            a prompt of token ids.
    """

    token_ids: tuple[int, ...]
    text: str | None


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen; see `GenerateOptions`."""

    temperature: float
    top_p: float
    top_k: int
    min_p: float


@dataclass(frozen=True, slots=True)
class Model:
    """A served model.

    Args:
        name: the name that requests use.
        aliases: the other names.
        context_length: the largest number of tokens of prompt and output together.
        vocabulary_size: the number of token ids.
        default_sampling: what a request gets where it sets nothing.
        end_of_text_token_ids: the token ids that end an answer.
        capabilities: the kinds of prompt that it takes.
        tokenizer_fingerprint: models with the same one read token ids alike.
        ready_time: when it became ready, in UTC.
    """

    name: str
    aliases: tuple[str, ...]
    context_length: int
    vocabulary_size: int
    default_sampling: Sampling
    end_of_text_token_ids: tuple[int, ...]
    capabilities: tuple[Capability, ...]
    tokenizer_fingerprint: str
    ready_time: datetime
