"""What the front submits to: the Backend protocol with its request and event types.

Tokens only: text ends in `headrace_server.text`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from headrace_server.engine.logprobs import TokenLogprobs
    from headrace_server.engine.messages import Constraint


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen; every value is resolved and in range.

    Args:
        temperature: 0 takes the most likely token.
        top_k: number of the most likely tokens to choose from; None leaves all.
        top_p: probability mass to choose from, in (0, 1].
        min_p: least probability relative to the most likely token, in [0, 1].
        seed: signed 64-bit seed of the random choice.
        logit_bias: what is added to the logits of some ids, in [-100, 100].
        presence_penalty: in [-2, 2], see `RowSampling`.
        frequency_penalty: in [-2, 2], see `RowSampling`.
        repetition_penalty: above 0, see `RowSampling`.
    """

    temperature: float
    top_k: int | None
    top_p: float
    min_p: float
    seed: int
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """A prompt to continue, by one or several candidates.

    Args:
        request_id: the server's own id, unique for ever.
        prompt_token_ids: at least one id, each below the vocabulary size.
        sampling: how tokens are chosen.
        max_output_tokens: at least 1; prompt and output fit the context.
        min_output_tokens: before this many output tokens no id of
            `stop_token_ids` can be chosen.
        stop_token_ids: ids that end the sequence; the id itself is delivered as
            the last token.
        num_candidates: how many answers, at least 1. Candidate i has seed + i, wrapped to 64 bits.
        num_top_logprobs: see `RowSampling`; None wants no log probabilities of the output.
        num_prompt_top_logprobs: the same for the prompt.
        constraint: what the output must match; None leaves it free.
        priority: requests of a higher one come first.
        caller: who shares the engine fairly with the others.
        cache_identity: only requests of the same identity share what is computed of prompts.
    """

    request_id: str
    prompt_token_ids: Sequence[int]
    sampling: SamplingParams
    max_output_tokens: int
    min_output_tokens: int
    stop_token_ids: frozenset[int]
    num_candidates: int = 1
    num_top_logprobs: int | None = None
    num_prompt_top_logprobs: int | None = None
    constraint: Constraint | None = None
    priority: int = 0
    caller: str = ""
    cache_identity: str = ""


class BackendFinish(Enum):
    """Why a backend ended a sequence by itself.

    COMPLETE is an output that its constraint lets nothing follow; its last token is one of text.
    """

    STOP_TOKEN = "stop_token"
    COMPLETE = "complete"
    MAX_OUTPUT_TOKENS = "max_output_tokens"


@dataclass(frozen=True, slots=True)
class Started:
    """The first step with this request has begun; it no longer waits in the queue.

    Args:
        num_cached_tokens: tokens of the prompt that did not need to be computed.
    """

    num_cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PromptTokens:
    """The next log probabilities of the prompt, in order, all of them before the first `Tokens`.

    Args:
        logprobs: at least one; the first token of a prompt has none.
    """

    logprobs: Sequence[TokenLogprobs]


@dataclass(frozen=True, slots=True)
class Tokens:
    """New tokens of a candidate, several when the reader was slow.

    Args:
        token_ids: the new ids in order, at least one.
        finish: set on the last event of the candidate; the stream ends with the last candidate.
        logprobs: one per id, where they are wanted.
        candidate_index: from 0.
    """

    token_ids: Sequence[int]
    finish: BackendFinish | None
    logprobs: Sequence[TokenLogprobs] = ()
    candidate_index: int = 0


BackendEvent: TypeAlias = Started | PromptTokens | Tokens


class BackendStream(Protocol):
    """The events of one request, for one reader.

    An iterator over what has come since the last time, at least one event: `Started` once, then
    `PromptTokens` where they are wanted, then `Tokens` until each candidate has its finish. What
    one step makes of several candidates comes together, and what comes while nobody reads is
    merged, so that there is at most one `Tokens` of a candidate at a time. A wait may be cancelled
    and begun again; nothing is lost.
    """

    def __aiter__(self) -> BackendStream:
        """Return itself."""

    async def __anext__(self) -> Sequence[BackendEvent]:
        """Wait for events.

        Raises:
            StopAsyncIteration: every candidate has ended.
            EngineUnavailableError: the engine has died.
            RequestFailedError: it failed on this request alone, or the stream was left.
        """

    def cancel(self, candidate_index: int) -> None:
        """Stop one candidate: it has no more events, and the others go on. Never waits.

        Nothing happens to a candidate that has ended.
        """


class BackendState(Enum):
    """What a backend can do now."""

    LOADING = "loading"
    READY = "ready"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class BackendStatus:
    """The state of a backend with words for people.

    Args:
        state: whether requests are taken.
        detail: one phrase, such as ``converting weights, 40 %``.
    """

    state: BackendState
    detail: str


@dataclass(frozen=True, slots=True)
class BackendModel:
    """What the front needs to know of the loaded model.

    Args:
        directory: holds tokenizer.json, tokenizer_config.json,
            generation_config.json and, where the model has one,
            chat_template.jinja.
        context_length: largest number of tokens of prompt and output together.
        vocabulary_size: number of token ids, the rows of the output head.
    """

    directory: Path
    context_length: int
    vocabulary_size: int


@dataclass(frozen=True, slots=True)
class BackendLoad:
    """A snapshot of what a backend holds, as of its last step.

    Args:
        num_running: sequences in the batch.
        num_waiting: sequences that wait for their first step or were preempted.
        num_free_blocks: KV blocks that no sequence holds.
        num_total_blocks: KV blocks in all.
        num_opened: sequences ever accepted by `submit`, one for each candidate.
        num_closed: sequences that reached their one terminal state.
        num_steps: steps ever run by this engine process.
        num_computed_tokens: tokens ever run through the model by this engine process.
        num_cached_blocks: free KV blocks with tokens that a prompt may find again.
        num_preemptions: times that a sequence had to give way and be computed again, ever in this
            engine process.
        num_prompt_tokens: tokens of all prompts that this engine process has ever started.
        num_cached_prompt_tokens: those among them that did not need to be computed.
    """

    num_running: int
    num_waiting: int
    num_free_blocks: int
    num_total_blocks: int
    num_opened: int
    num_closed: int
    num_steps: int
    num_computed_tokens: int
    num_cached_blocks: int = 0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0
    num_cached_prompt_tokens: int = 0


class Backend(Protocol):
    """A source of tokens. All methods belong to the event loop's thread."""

    @property
    def model(self) -> BackendModel | None:
        """The loaded model; None until it was ready for the first time."""

    @property
    def status(self) -> BackendStatus:
        """The state now."""

    async def wait_for_status_change(self, seen: BackendStatus) -> BackendStatus:
        """Wait until the status differs from `seen` and return it."""

    @property
    def load(self) -> BackendLoad:
        """The snapshot of the last step."""

    def submit(self, request: BackendRequest) -> AbstractAsyncContextManager[BackendStream]:
        """Open a stream of events for one request.

        Entering decides at once, for all candidates together, and raises `OverloadedError` or
        `EngineUnavailableError`. Leaving the context cancels the candidates that have not ended;
        leaving never waits.
        """
