"""One sequence in the engine: its tokens, its KV blocks, and how far it is computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace_server.engine.model_runner import BatchRow, RowSampling

if TYPE_CHECKING:
    from headrace_server.engine.constraint_compiler import ConstraintState, PendingConstraint
    from headrace_server.engine.messages import AddSequence, EngineFinish


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence that has not reached its terminal state.

    There are no phases: `num_computed_tokens` catches up with the number of tokens, and
    each time it has, a token is chosen and appended.

    Args:
        request: what was asked for.
        token_ids: the prompt and the output so far.
        block_ids: the KV blocks in order; the first `num_computed_tokens` slots of them are valid.
        num_computed_tokens: tokens whose keys and values are in the KV blocks.
        has_started: whether a step has ever contained the sequence.
        abort_requested: whether the front has given it up.
        pending_constraint: the constraint while it is compiled; the sequence waits for it.
        constraint: what its output must match; None while that is compiled, and where it is free.
    """

    request: AddSequence
    token_ids: list[int] = field(init=False)
    block_ids: list[int] = field(init=False, default_factory=list)
    num_computed_tokens: int = 0
    has_started: bool = False
    abort_requested: bool = False
    pending_constraint: PendingConstraint | None = None
    constraint: ConstraintState | None = None

    def __post_init__(self) -> None:
        self.token_ids = list(self.request.prompt_token_ids)

    @property
    def sequence_id(self) -> int:
        """The id that the front gave it."""
        return self.request.sequence_id

    @property
    def num_uncomputed_tokens(self) -> int:
        """Number of tokens still to be run through the model; at least 1 between steps."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def num_output_tokens(self) -> int:
        """Number of tokens made so far."""
        return len(self.token_ids) - len(self.request.prompt_token_ids)

    def row(self, num_tokens: int) -> BatchRow:
        """The part of a step that computes the next `num_tokens` tokens."""
        start = self.num_computed_tokens
        end = start + num_tokens
        return BatchRow(
            sequence_id=self.sequence_id,
            token_ids=self.token_ids[start:end],
            start=start,
            block_ids=self.block_ids,
            sampling=self._sampling() if end == len(self.token_ids) else None,
        )

    def append(self, token_id: int) -> EngineFinish | None:
        """Take the chosen token and say whether it ends the sequence."""
        self.token_ids.append(token_id)
        if token_id in self.request.stop_token_ids:
            return "stop_token"
        if self.num_output_tokens >= self.request.max_output_tokens:
            return "max_output_tokens"
        if self.constraint is not None and not self.constraint.accept(token_id):
            return "failed"
        return None

    def _sampling(self) -> RowSampling:
        request = self.request
        may_stop = self.num_output_tokens >= request.min_output_tokens
        return RowSampling(
            position=len(self.token_ids),
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            seed=request.seed,
            banned_token_ids=() if may_stop else request.stop_token_ids,
            mask=None if self.constraint is None else self.constraint.mask(),
        )
