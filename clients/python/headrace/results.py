"""What the client returns: answers, their pieces, and the facts of models."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from headrace.logprobs import TokenLogprobs
    from headrace.tools import ToolCall, ToolCallDelta


class FinishReason(StrEnum):
    """Why an answer ended.

    Attributes:
        END_OF_TEXT: the model said that it is done.
        STOP_SEQUENCE: a stop of the request appeared; `Finish` names it.
        MAX_OUTPUT_TOKENS: `max_output_tokens` was reached.
        CONTEXT_LENGTH: the context of the model is full.
        TIME_LIMIT: `max_seconds` passed.
        TOOL_CALLS: the model waits for the results of its calls.
        UNKNOWN: a reason newer than this client.
    """

    END_OF_TEXT = "end_of_text"
    STOP_SEQUENCE = "stop_sequence"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    CONTEXT_LENGTH = "context_length"
    TIME_LIMIT = "time_limit"
    TOOL_CALLS = "tool_calls"
    UNKNOWN = "unknown"


class Capability(StrEnum):
    """What a model can do.

    Attributes:
        COMPLETION: continue text and token ids.
        CHAT: answer a conversation.
        CONSTRAINT: give its answers a form.
        TOOLS: call tools.
        REASONING: tell its reasoning apart from its answer.
        INFILL: fill the gap between a text and its `suffix`.
        UNKNOWN: something newer than this client.
    """

    COMPLETION = "completion"
    CHAT = "chat"
    CONSTRAINT = "constraint"
    TOOLS = "tools"
    REASONING = "reasoning"
    INFILL = "infill"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of an answer; with `STOP_SEQUENCE` one of the two stops is set."""

    reason: FinishReason
    stop_sequence: str | None = None
    stop_token_id: int | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of one candidate.

    Args:
        text: the new text, whole characters only.
        token_ids: the new token ids.
        finish: the end of the candidate, with its last piece only.
        candidate_index: which candidate, from 0.
        logprobs: how likely the new tokens were; empty without `top_logprobs`.
        reasoning: the new text of what the model thinks before it answers.
        tool_calls: the new pieces of calls, in order.
    """

    text: str
    token_ids: tuple[int, ...]
    finish: Finish | None
    candidate_index: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCallDelta, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of an answer.

    Args:
        prompt_token_count: of the prompt.
        output_token_count: of all candidates, their end-of-text tokens included.
        cached_token_count: those of the prompt that did not need to be computed.
        reasoning_token_count: those of the output up to the end of the reasoning.
    """

    prompt_token_count: int
    output_token_count: int
    cached_token_count: int = 0
    reasoning_token_count: int = 0


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
class Candidate:
    """One whole answer to a prompt.

    Args:
        text: the text; empty with ``output_text=False``.
        token_ids: the token ids; empty with ``output_token_ids=False``.
        finish: why it ended.
        logprobs: how likely each token was; empty without `top_logprobs`.
        reasoning: what the model thought before it answered, where it marks that.
        tool_calls: the calls that it asks for.
    """

    text: str
    token_ids: tuple[int, ...]
    finish: Finish
    logprobs: tuple[TokenLogprobs, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def finish_reason(self) -> FinishReason:
        """Why the answer ended; `finish` tells which stop it was."""
        return self.finish.reason


@dataclass(frozen=True, slots=True)
class Generation:
    """All candidates, nearly always one, and the facts about them.

    `text`, `token_ids`, `finish`, `finish_reason`, `logprobs`, `reasoning` and `tool_calls` are
    those of the first one.

    Args:
        candidates: as many as `candidate_count`, in order.
        usage: how many tokens they took.
        timing: how long they took.
        request_id: the server's own id of the request; None when it gave none.
        prompt_logprobs: how likely each token of the prompt was; empty without
            `prompt_logprobs`, and not complete where `max_seconds` passed before.
    """

    candidates: tuple[Candidate, ...]
    usage: Usage
    timing: Timing
    request_id: str | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] = ()

    @property
    def text(self) -> str:
        """The text of the first candidate."""
        return self.candidates[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The token ids of the first candidate."""
        return self.candidates[0].token_ids

    @property
    def finish(self) -> Finish:
        """Why the first candidate ended."""
        return self.candidates[0].finish

    @property
    def finish_reason(self) -> FinishReason:
        """Why the first candidate ended; `finish` tells which stop it was."""
        return self.candidates[0].finish_reason

    @property
    def logprobs(self) -> tuple[TokenLogprobs, ...]:
        """How likely each token of the first candidate was."""
        return self.candidates[0].logprobs

    @property
    def reasoning(self) -> str:
        """What the model thought before the first candidate."""
        return self.candidates[0].reasoning

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the first candidate."""
        return self.candidates[0].tool_calls


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
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0


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
        capabilities: the kinds of prompt that it takes, and what else it can do.
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
