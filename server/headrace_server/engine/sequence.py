"""One sequence in the engine: its tokens, its KV blocks, and how far it is computed."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace_server.engine.model_runner import BatchRow, PromptLogprobs, RowSampling

if TYPE_CHECKING:
    from collections.abc import Sequence as Items

    from headrace_server.engine.block_names import BlockNames
    from headrace_server.engine.constraint_compiler import ConstraintState, PendingConstraint
    from headrace_server.engine.logprobs import TokenLogprobs
    from headrace_server.engine.messages import AddSequence, EngineFinish

# Of a row whose token is being chosen.
_UNKNOWN = (0,)


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence that has not reached its terminal state.

    There are no phases: `num_computed_tokens` catches up with the number of tokens, and
    each time it has, a token is chosen and appended.

    Args:
        request: what was asked for.
        arrival: counts sequences as they come.
        block_names: of its tokens.
        leader: a sequence with the same prompt whose blocks it shares.
        pending_constraint: the constraint while it is compiled; the sequence waits for it.
        constraint: what its output must match; None while that is compiled, and where it is free.
        token_ids: the prompt and the output so far.
        output_token_ids: the output alone.
        block_ids: the KV blocks in order; the first `num_computed_tokens` slots of them are valid.
        num_named_blocks: how many of them others have been let find.
        num_computed_tokens: tokens whose keys and values are in the KV blocks.
        awaited_row: row of the step in progress that chooses the token behind `token_ids`; None
            where there is none or its step has not been waited for since.
        num_told_prompt_logprobs: log probabilities of the prompt that the front has.
        admission: counts sequences as they first come into the batch; None before.
        has_started: whether a step has ever contained the sequence.
        has_ended: whether it has reached its terminal state.
        abort_requested: whether the front has given it up.
    """

    request: AddSequence
    arrival: int
    block_names: BlockNames
    leader: Sequence | None = None
    pending_constraint: PendingConstraint | None = None
    constraint: ConstraintState | None = None
    token_ids: list[int] = field(init=False)
    output_token_ids: list[int] = field(init=False, default_factory=list)
    block_ids: list[int] = field(init=False, default_factory=list)
    num_named_blocks: int = 0
    num_computed_tokens: int = 0
    awaited_row: int | None = None
    num_told_prompt_logprobs: int = 0
    admission: int | None = None
    has_started: bool = False
    has_ended: bool = False
    abort_requested: bool = False

    def __post_init__(self) -> None:
        self.token_ids = list(self.request.prompt_token_ids)

    @property
    def sequence_id(self) -> int:
        """The id that the front gave it."""
        return self.request.sequence_id

    @property
    def rank(self) -> tuple[int, int]:
        """The place in the batch, the least first: what stands last gives way first."""
        admission = sys.maxsize if self.admission is None else self.admission
        return (-self.request.priority, admission)

    @property
    def num_tokens(self) -> int:
        """Number of tokens, the one included that is being chosen."""
        return len(self.token_ids) + self._num_awaited_tokens

    @property
    def num_uncomputed_tokens(self) -> int:
        """Number of tokens still to be run through the model; at least 1 between steps."""
        return self.num_tokens - self.num_computed_tokens

    @property
    def is_due(self) -> bool:
        """Whether it lacks one token, and does not surely end with it."""
        num_output_tokens = len(self.output_token_ids) + self._num_awaited_tokens
        is_full = num_output_tokens >= self.request.max_output_tokens
        return self.num_uncomputed_tokens == 1 and not is_full

    @property
    def is_ready(self) -> bool:
        """Whether it may be run: its constraint is compiled and the prompt it shares computed."""
        if self.pending_constraint is not None and not self.pending_constraint.is_ready:
            return False
        return self.leader is None or self.leader.has_ended or bool(self.leader.output_token_ids)

    @property
    def is_decoding(self) -> bool:
        """Whether all of it is computed but the token that was chosen last."""
        return bool(self.output_token_ids) and self.num_uncomputed_tokens == 1

    @property
    def max_shared_tokens(self) -> int:
        """Number of tokens, from the first on, that need no computing if their blocks are there.

        The last one always does, and so does each token of a prompt whose log probabilities are
        wanted.
        """
        is_told = self.num_told_prompt_logprobs >= len(self.request.prompt_token_ids) - 1
        if self.request.num_prompt_top_logprobs is None or is_told:
            return len(self.token_ids) - 1
        return self.num_told_prompt_logprobs

    def row(self, num_tokens: int) -> BatchRow:
        """The part of a step that computes the next `num_tokens` tokens."""
        start = self.num_computed_tokens
        end = start + num_tokens
        return BatchRow(
            sequence_id=self.sequence_id,
            token_ids=self.token_ids[start:end] if self.awaited_row is None else _UNKNOWN,
            start=start,
            block_ids=self.block_ids,
            sampling=self._sampling() if end == self.num_tokens else None,
            prompt_logprobs=self._prompt_logprobs(start, end),
            awaited_row=self.awaited_row,
        )

    def append(self, token_id: int) -> EngineFinish | None:
        """Take the chosen token and say whether it ends the sequence."""
        self.awaited_row = None
        self.token_ids.append(token_id)
        self.output_token_ids.append(token_id)
        if token_id in self.request.stop_token_ids:
            return "stop_token"
        if self.constraint is not None:
            if not self.constraint.accept(token_id):
                return "failed"
            if self.constraint.is_complete:
                return "complete"
        if len(self.output_token_ids) >= self.request.max_output_tokens:
            return "max_output_tokens"
        return None

    def take_prompt_logprobs(
        self, row: BatchRow, logprobs: Items[TokenLogprobs]
    ) -> list[TokenLogprobs]:
        """Return those of a row's log probabilities of the prompt that the front does not have."""
        if row.prompt_logprobs is None:
            return []
        untold = list(logprobs[self.num_told_prompt_logprobs - row.start :])
        self.num_told_prompt_logprobs += len(untold)
        return untold

    @property
    def _num_awaited_tokens(self) -> int:
        return 0 if self.awaited_row is None else 1

    def _prompt_logprobs(self, start: int, end: int) -> PromptLogprobs | None:
        prompt = self.request.prompt_token_ids
        num_top = self.request.num_prompt_top_logprobs
        if num_top is None or min(end, len(prompt) - 1) <= self.num_told_prompt_logprobs:
            return None
        return PromptLogprobs(prompt[start + 1 : end + 1], num_top)

    def _sampling(self) -> RowSampling:
        request = self.request
        constraint = self.constraint
        num_output_tokens = len(self.output_token_ids) + self._num_awaited_tokens
        may_stop = num_output_tokens >= request.min_output_tokens
        repetition = request.repetition_penalty != 1.0
        looks_back = repetition or request.presence_penalty or request.frequency_penalty
        return RowSampling(
            position=self.num_tokens,
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            seed=request.seed,
            # A constraint knows whether anything is left without them.
            banned_token_ids=() if may_stop or constraint else request.stop_token_ids,
            logit_bias=request.logit_bias,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            repetition_penalty=request.repetition_penalty,
            prompt_token_ids=request.prompt_token_ids if repetition else (),
            output_token_ids=self.output_token_ids if looks_back else (),
            mask=None if constraint is None else constraint.mask(may_stop=may_stop),
            num_top_logprobs=request.num_top_logprobs,
        )
