"""The messages between the front and the engine process: msgpack maps, tagged by type.

Every message from the engine carries its epoch, the number of its incarnation,
so that results of a dead engine can be told apart. Sequence ids are minted by the
front, count up from 0 and are never used twice.
"""

from __future__ import annotations

from typing import Literal

import msgspec

# msgspec reads the annotations at run time.
from headrace_server.engine.logprobs import TokenLogprobs


class Constraint(msgspec.Struct, frozen=True, array_like=True):
    """A grammar that the output follows, as the front has found it to be sound.

    Args:
        grammar: in llguidance's own JSON form, see `LLMatcher`.
    """

    grammar: str


class AddSequence(msgspec.Struct, frozen=True, tag="add"):
    """Queue a sequence.

    Args:
        top_k: None leaves all tokens.
        logit_bias: what is added to the logits of some ids.
        num_top_logprobs: see `RowSampling`.
        num_prompt_top_logprobs: see `PromptLogprobs`; None wants none.
        constraint: what the output must match; None leaves it free.
        priority: sequences of a higher one come first.
        caller: who shares the engine fairly with the others.
        cache_identity: only sequences of the same identity share KV blocks.
        shares_prompt_with: a sequence with the same prompt that came right before and whose blocks
            of the prompt this one takes over once they are computed; None for none.
    """

    sequence_id: int
    prompt_token_ids: list[int]
    temperature: float
    top_k: int | None
    top_p: float
    min_p: float
    seed: int
    max_output_tokens: int
    min_output_tokens: int
    stop_token_ids: list[int]
    logit_bias: dict[int, float] = {}
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    num_top_logprobs: int | None = None
    num_prompt_top_logprobs: int | None = None
    constraint: Constraint | None = None
    priority: int = 0
    caller: str = ""
    cache_identity: str = ""
    shares_prompt_with: int | None = None


class AbortSequence(msgspec.Struct, frozen=True, tag="abort"):
    """Stop a sequence. It is acknowledged by a `SequenceOutput` with a finish;
    an id that is not live is ignored.
    """

    sequence_id: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Leave the loop and exit with status 0."""


FrontMessage = AddSequence | AbortSequence | Stop

# "complete" is an output that its constraint lets nothing follow; its last token is one of text.
EngineFinish = Literal["stop_token", "complete", "max_output_tokens", "aborted", "failed"]


class SequenceOutput(msgspec.Struct, frozen=True, array_like=True):
    """What one step made of one sequence.

    Args:
        sequence_id: which.
        token_ids: the new ids; empty with `started` alone, `aborted` and `failed`.
        started: the first step with the sequence has begun.
        finish: the terminal state, sent exactly once per sequence.
        num_cached_tokens: with `started`, tokens of the prompt that were found in the KV cache.
        logprobs: one per token of `token_ids`, where they are wanted.
        prompt_logprobs: the next of those of the prompt, in order, all of them before the first
            token; the first token of a prompt has none.
    """

    sequence_id: int
    token_ids: list[int]
    started: bool = False
    finish: EngineFinish | None = None
    num_cached_tokens: int = 0
    logprobs: list[TokenLogprobs] = []
    prompt_logprobs: list[TokenLogprobs] = []


class Stats(msgspec.Struct, frozen=True, array_like=True):
    """Counters after a step; see `BackendLoad`."""

    num_steps: int
    num_computed_tokens: int
    num_running: int
    num_waiting: int
    num_free_blocks: int
    num_total_blocks: int
    num_cached_blocks: int = 0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0
    num_cached_prompt_tokens: int = 0


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """Progress before `Ready`. `fraction` is from 0 to 1 where it is known."""

    epoch: int
    phase: str
    fraction: float | None = None


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The model is loaded; see `BackendModel`."""

    epoch: int
    directory: str
    context_length: int
    vocabulary_size: int
    stats: Stats


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed"):
    """The model cannot be served: one sentence that says what to do. The process exits."""

    epoch: int
    message: str


class StepResult(msgspec.Struct, frozen=True, tag="step"):
    """One step, or, with no outputs, the heartbeat of an idle engine."""

    epoch: int
    outputs: list[SequenceOutput]
    stats: Stats


EngineMessage = Loading | Ready | LoadFailed | StepResult
