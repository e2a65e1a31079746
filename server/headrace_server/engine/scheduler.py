"""Decides what each step computes, and what the step's tokens make of the sequences.

No I/O and no clock: the same messages in the same order give the same steps.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace_server.engine.block_pool import BlockPoolError
from headrace_server.engine.constraint_compiler import ConstraintError
from headrace_server.engine.messages import AddSequence, SequenceOutput, Stats
from headrace_server.engine.model_runner import RowOutput
from headrace_server.engine.sequence import Sequence
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from headrace_server.engine.block_pool import BlockPool
    from headrace_server.engine.constraint_compiler import ConstraintCompiler
    from headrace_server.engine.limits import SchedulerLimits
    from headrace_server.engine.messages import EngineFinish
    from headrace_server.engine.model_runner import BatchRow, RowFault

_log = logging.getLogger(__name__)


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


class Scheduler:
    """Holds every live sequence, either in the batch or in the queue.

    A sequence in the batch holds the KV blocks of all its tokens; one in the queue holds none.
    When the blocks run out, the newest of the batch goes back to the front of the queue,
    keeps its tokens and is computed again later. A sequence whose constraint is still being
    compiled stands beside the queue and holds nobody up.

    Args:
        compiler: None refuses constraints.
    """

    def __init__(
        self,
        limits: SchedulerLimits,
        block_pool: BlockPool,
        compiler: ConstraintCompiler | None = None,
    ) -> None:
        self._limits = limits
        self._pool = block_pool
        self._compiler = compiler
        self._live: dict[int, Sequence] = {}
        self._running: list[Sequence] = []
        self._waiting: deque[Sequence] = deque()
        self._pending: list[Sequence] = []
        self._aborted: list[Sequence] = []
        self._outputs: list[SequenceOutput] = []
        self._num_steps = 0
        self._num_computed_tokens = 0
        self.num_preemptions = 0
        self.num_ignored_messages = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would compute or acknowledge anything."""
        return bool(self._live)

    @property
    def stats(self) -> Stats:
        """The counters now."""
        return Stats(
            num_steps=self._num_steps,
            num_computed_tokens=self._num_computed_tokens,
            num_running=len(self._running),
            num_waiting=len(self._waiting) + len(self._pending),
            num_free_blocks=self._pool.num_free,
            num_total_blocks=self._pool.num_blocks,
        )

    def add(self, request: AddSequence) -> None:
        """Queue a sequence; one that could never run fails at once."""
        if request.sequence_id in self._live:
            self.num_ignored_messages += 1
            return
        refusal = self._refusal(request)
        if refusal is not None:
            _log_failure(request.sequence_id, refusal)
            self._outputs.append(SequenceOutput(request.sequence_id, [], finish="failed"))
            return
        sequence = Sequence(request)
        self._live[request.sequence_id] = sequence
        if request.constraint is None or self._compiler is None:
            self._waiting.append(sequence)
        else:
            sequence.pending_constraint = self._compiler.start(request.constraint)
            self._pending.append(sequence)

    def abort(self, sequence_id: int) -> None:
        """Mark a sequence; it ends before the next step, or with the step that contains it."""
        sequence = self._live.get(sequence_id)
        if sequence is None:
            self.num_ignored_messages += 1
        elif not sequence.abort_requested:
            sequence.abort_requested = True
            self._aborted.append(sequence)

    def schedule(self) -> Step:
        """Choose what to compute: first a token of each answer, then prompts, then the queue."""
        self._end_aborted()
        self._take_constraints()
        step = Step()
        self._schedule_decodes(step)
        chunk = self._limits.max_prefill_chunk if step.rows else self._limits.max_num_batched_tokens
        self._schedule_prefills(step, chunk)
        self._admit(step, chunk)
        return step

    def commit(self, step: Step, results: list[RowOutput | RowFault]) -> None:
        """Take what the model made of the step."""
        self._num_steps += 1
        self._num_computed_tokens += step.num_tokens
        for sequence, row, result in zip(step.sequences, step.rows, results, strict=True):
            sequence.num_computed_tokens += len(row.token_ids)
            if row.sampling is not None and not sequence.abort_requested:
                self._commit_choice(sequence, result)
        self._end_aborted()

    def take_outputs(self) -> list[SequenceOutput]:
        """Return what the front has not been told yet, once."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def check_integrity(self) -> None:
        """Check that sequences and KV blocks are each where they belong, once.

        Raises:
            BlockPoolError: they are not.
        """
        self._pool.check_integrity([sequence.block_ids for sequence in self._running])
        waiting = [*self._waiting, *self._pending]
        placed = [sequence.sequence_id for sequence in (*self._running, *waiting)]
        if sorted(placed) != sorted(self._live):
            raise BlockPoolError(f"{len(self._live)} sequences, {len(placed)} in batch and queue")
        if any(sequence.block_ids for sequence in waiting):
            raise BlockPoolError("a sequence in the queue holds KV blocks")

    def _refusal(self, request: AddSequence) -> str | None:
        prompt = request.prompt_token_ids
        num_tokens = len(prompt) + request.max_output_tokens
        if not prompt or request.max_output_tokens < 1:
            return "no token to compute"
        if self._pool.num_blocks_for(num_tokens) > self._pool.num_blocks:
            return "larger than the whole KV cache"
        if min(prompt) < 0 or max(prompt) >= self._limits.vocabulary_size:
            return "token id outside the vocabulary"
        if request.constraint is not None and self._compiler is None:
            return "no compiler for its constraint"
        return None

    def _take_constraints(self) -> None:
        """Let the sequences into the queue whose constraints have been compiled."""
        for sequence in [each for each in self._pending if _is_ready(each)]:
            self._pending.remove(sequence)
            self._waiting.append(sequence)
            pending, sequence.pending_constraint = sequence.pending_constraint, None
            try:
                sequence.constraint = pending.take() if pending else None
            except ConstraintError as error:
                _log_failure(sequence.sequence_id, str(error))
                self._end(sequence, [], "failed")

    def _schedule_decodes(self, step: Step) -> None:
        """Add every sequence that lacks one token, the oldest first; the newest may give way."""
        index = 0
        while index < len(self._running) and step.num_tokens < self._limits.max_num_batched_tokens:
            sequence = self._running[index]
            index += 1
            if sequence.num_uncomputed_tokens == 1 and self._make_room(sequence):
                step.add(sequence, 1)

    def _schedule_prefills(self, step: Step, chunk: int) -> None:
        for sequence in self._running:
            if sequence.num_uncomputed_tokens > 1:
                self._add_chunk(step, sequence, chunk)

    def _admit(self, step: Step, chunk: int) -> None:
        """Move sequences from the queue into the batch, in order, while there is room.

        One free block for each sequence of the batch stays in reserve, so that what is
        admitted is not preempted at once.
        """
        limits = self._limits
        max_num_running = min(limits.max_num_sequences, limits.max_num_batched_tokens)
        while self._waiting and len(self._running) < max_num_running:
            sequence = self._waiting[0]
            num_blocks = self._pool.num_blocks_for(len(sequence.token_ids))
            num_left = limits.max_num_batched_tokens - step.num_tokens
            if num_left == 0 or num_blocks + len(self._running) > self._pool.num_free:
                return
            self._running.append(self._waiting.popleft())
            sequence.block_ids = self._pool.take(num_blocks)
            if not sequence.has_started:
                sequence.has_started = True
                self._outputs.append(SequenceOutput(sequence.sequence_id, [], started=True))
            self._add_chunk(step, sequence, chunk)

    def _add_chunk(self, step: Step, sequence: Sequence, chunk: int) -> None:
        num_left = self._limits.max_num_batched_tokens - step.num_tokens
        num_tokens = min(sequence.num_uncomputed_tokens, chunk, num_left)
        if num_tokens > 0:
            step.add(sequence, num_tokens)

    def _make_room(self, sequence: Sequence) -> bool:
        """Get the KV block for the last token; False when the sequence itself had to give way."""
        num_missing = self._pool.num_blocks_for(len(sequence.token_ids)) - len(sequence.block_ids)
        while num_missing > self._pool.num_free:
            newest = self._running.pop()
            self._free(newest)
            newest.num_computed_tokens = 0
            self._waiting.appendleft(newest)
            self.num_preemptions += 1
            if newest is sequence:
                return False
        sequence.block_ids.extend(self._pool.take(num_missing))
        return True

    def _commit_choice(self, sequence: Sequence, result: RowOutput | RowFault) -> None:
        token_id = result.token_id if isinstance(result, RowOutput) else None
        if token_id is None or token_id not in range(self._limits.vocabulary_size):
            _log_failure(sequence.sequence_id, str(result))
            self._end(sequence, [], "failed")
            return
        finish = sequence.append(token_id)
        if finish is None:
            self._outputs.append(SequenceOutput(sequence.sequence_id, [token_id]))
        elif finish == "failed":
            _log_failure(sequence.sequence_id, "token outside its constraint")
            self._end(sequence, [], finish)
        else:
            self._end(sequence, [token_id], finish)

    def _end_aborted(self) -> None:
        for sequence in self._aborted:
            self._end(sequence, [], "aborted")
        self._aborted.clear()

    def _end(self, sequence: Sequence, token_ids: list[int], finish: EngineFinish) -> None:
        """The one way out: forget the sequence, free its blocks, tell the front."""
        del self._live[sequence.sequence_id]
        if sequence.block_ids:
            self._running.remove(sequence)
            self._free(sequence)
        elif sequence.pending_constraint is not None:
            sequence.pending_constraint.cancel()
            self._pending.remove(sequence)
        else:
            self._waiting.remove(sequence)
        self._outputs.append(SequenceOutput(sequence.sequence_id, token_ids, finish=finish))

    def _free(self, sequence: Sequence) -> None:
        # A new list: the rows of the step before may still refer to the old one.
        self._pool.give_back(sequence.block_ids)
        sequence.block_ids = []


def _is_ready(sequence: Sequence) -> bool:
    return sequence.pending_constraint is None or sequence.pending_constraint.is_ready


def _log_failure(sequence_id: int, why: str) -> None:
    log_event(_log, logging.ERROR, "sequence failed", sequence_id=sequence_id, why=why)
