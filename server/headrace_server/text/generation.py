"""The front's own types of a generation: a validated request and the deltas of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A prompt given to the tokenizer as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A prompt given to the model as it is."""

    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation; `name` is None when not given."""

    role: Role
    content: str
    name: str | None


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation to render with the model's chat template."""

    messages: tuple[ChatMessage, ...]
    add_generation_prompt: bool
    continue_final_message: bool


Prompt = TextPrompt | TokenPrompt | ChatPrompt


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """A prompt in tokens, at least one; `text` is what was tokenized, None for a `TokenPrompt`."""

    token_ids: tuple[int, ...]
    text: str | None


@dataclass(frozen=True, slots=True)
class Sampling:
    """What the request asks for; None takes the model's default. `top_k` 0 leaves all."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Stopping:
    """When the answer ends. `max_output_tokens` None leaves the room of the context."""

    max_output_tokens: int | None = None
    min_output_tokens: int = 0
    stop_sequences: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_end_of_text: bool = False
    include_stop_in_output: bool = False


@dataclass(frozen=True, slots=True)
class Chunking:
    """How the answer is cut.

    Args:
        min_tokens: tokens to collect before a delta is due.
        max_delay_seconds: longest wait for `min_tokens`; None has no limit.
        whole: one delta for the whole answer.
    """

    min_tokens: int = 1
    max_delay_seconds: float | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request in which every field is in range; only its length is not known yet.

    Args:
        request_id: the server's own id, unique for ever.
        want_text: whether deltas carry text.
        want_token_ids: whether deltas carry token ids.
        max_queue_seconds: see max_queue_duration in the contract.
        max_seconds: see max_duration in the contract.
    """

    request_id: str
    prompt: Prompt
    sampling: Sampling = Sampling()
    stopping: Stopping = Stopping()
    want_text: bool = True
    want_token_ids: bool = False
    chunking: Chunking = Chunking()
    max_queue_seconds: float | None = None
    max_seconds: float | None = None


class FinishReason(Enum):
    """Why an answer ended; the names are those of the contract."""

    END_OF_TEXT = "end_of_text"
    STOP_SEQUENCE = "stop_sequence"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    CONTEXT_LENGTH = "context_length"
    TIME_LIMIT = "time_limit"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an answer; at most one of the two matches is set."""

    reason: FinishReason
    stop_sequence: str | None = None
    stop_token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of an answer."""

    prompt_token_count: int
    output_token_count: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations since arrival; `first_token_seconds` is None when no token was made."""

    queue_seconds: float
    first_token_seconds: float | None
    total_seconds: float


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A new piece of the answer. Only the last one has `finish`, `usage` and `timing`.

    Args:
        text: valid Unicode; incomplete characters and possible stop prefixes are
            held back.
        token_ids: the ids made since the delta before.
    """

    text: str
    token_ids: tuple[int, ...]
    finish: Finish | None = None
    usage: Usage | None = None
    timing: Timing | None = None
