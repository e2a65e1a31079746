"""Decides what each step computes, and what the step's tokens make of the sequences.

No I/O and no clock: the same messages in the same order give the same steps.
"""

from __future__ import annotations

import itertools
import logging
from bisect import bisect, insort
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeGuard

from headrace_server.engine.block_names import BlockNames
from headrace_server.engine.block_pool import BlockPoolError
from headrace_server.engine.constraint_compiler import ConstraintError
from headrace_server.engine.held_sequences import HeldSequences
from headrace_server.engine.kv_memory import KvMemory
from headrace_server.engine.messages import AddSequence, SequenceOutput, Stats
from headrace_server.engine.model_runner import RowOutput
from headrace_server.engine.prefill_budget import align_chunk, share_budget
from headrace_server.engine.sequence import Sequence
from headrace_server.engine.step import Step
from headrace_server.engine.waiting_queue import WaitingQueue
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from headrace_server.engine.block_pool import BlockPool
    from headrace_server.engine.constraint_compiler import ConstraintCompiler
    from headrace_server.engine.kv_memory import Placement
    from headrace_server.engine.limits import SchedulerLimits
    from headrace_server.engine.model_runner import BatchRow, RowFault

_log = logging.getLogger(__name__)

# Looking a prompt up in the prefix cache takes up to a tenth of a millisecond.
_MAX_PASSED = 8


@dataclass(slots=True)
class _Counters:
    """What the scheduler has done; see `Stats`."""

    num_steps: int = 0
    num_computed_tokens: int = 0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0
    num_cached_prompt_tokens: int = 0


class Scheduler:
    """Holds every live sequence: in the batch, in the queue, or held back beside it.

    A sequence in the batch holds the KV blocks of all its tokens; the others hold none. When the
    blocks run out, the last of the batch, which is the newest of the lowest priority, goes back to
    the queue, keeps its tokens and is computed again later. The first of the batch never gives
    way, so that there is always progress. Held back is a sequence whose constraint is being
    compiled, or whose prompt another is computing; it holds nobody up.

    Args:
        block_pool: for the scheduler alone.
        compiler: None refuses constraints.
        prefix_cache: whether a sequence finds what others have computed.
    """

    def __init__(
        self,
        limits: SchedulerLimits,
        block_pool: BlockPool,
        compiler: ConstraintCompiler | None = None,
        *,
        prefix_cache: bool = True,
    ) -> None:
        self._limits = limits
        self._pool = block_pool
        self._memory = KvMemory(block_pool, prefix_cache=prefix_cache)
        self._compiler = compiler
        self._live: dict[int, Sequence] = {}
        self._running: list[Sequence] = []  # by rank
        self._waiting = WaitingQueue()
        self._held = HeldSequences()
        self._aborted: list[Sequence] = []
        self._outputs: list[SequenceOutput] = []
        self._begun: list[Step] = []
        self._arrivals = itertools.count()
        self._admissions = itertools.count()
        self._counters = _Counters()
        self.num_ignored_messages = 0

    @property
    def has_work(self) -> bool:
        """Whether a step would compute or acknowledge anything."""
        return bool(self._live)

    @property
    def stats(self) -> Stats:
        """The counters now."""
        counters = self._counters
        return Stats(
            num_steps=counters.num_steps,
            num_computed_tokens=counters.num_computed_tokens,
            num_running=len(self._running),
            num_waiting=len(self._waiting) + len(self._held),
            num_free_blocks=self._pool.num_free,
            num_total_blocks=self._pool.num_blocks,
            num_cached_blocks=self._pool.num_cached,
            num_preemptions=counters.num_preemptions,
            num_prompt_tokens=counters.num_prompt_tokens,
            num_cached_prompt_tokens=counters.num_cached_prompt_tokens,
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
        sequence = Sequence(
            request,
            next(self._arrivals),
            BlockNames(request.cache_identity, self._pool.block_size),
            leader=self._leader(request),
        )
        if request.constraint is not None and self._compiler is not None:
            sequence.pending_constraint = self._compiler.start(
                request.constraint, request.stop_token_ids
            )
        self._live[request.sequence_id] = sequence
        self._held.add(sequence)

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
        self._let_go()
        step = Step()
        self._schedule_decodes(step)
        self._schedule_prompts(step)
        if step.rows:
            self._begun.append(step)
        return step

    def schedule_ahead(self, begun: Step) -> Step | None:
        """Choose what follows a step before anybody knows what came of it.

        A sequence that turns out to have ended with that step has its row dropped. None where the
        results must be known first: a choice looks back at tokens, or a sequence has to give way.
        """
        if not begun.can_be_followed:
            return None
        begun.advance()
        if not self._memory.can_extend(each for each in self._running if each.is_due):
            return None
        return self.schedule()

    def abandon(self, step: Step) -> None:
        """Let a step that was chosen be as if it had not been."""
        self._begun.remove(step)

    def commit(self, step: Step, results: list[RowOutput | RowFault]) -> None:
        """Take what the model made of the step."""
        self._counters.num_steps += 1
        self._counters.num_computed_tokens += step.num_tokens
        self._begun.remove(step)
        step.advance()
        for index in step.live_indices():
            sequence, row, result = step.sequences[index], step.rows[index], results[index]
            if self._is_sound(result, row):
                self._commit_row(sequence, row, result)
            else:
                self._memory.distrust(sequence)
                if not sequence.abort_requested:
                    self._fail(sequence, str(result))
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
        self._memory.check_integrity(self._running)
        waiting = [*self._waiting, *self._held]
        placed = [sequence.sequence_id for sequence in (*self._running, *waiting)]
        if sorted(placed) != sorted(self._live) or len(waiting) != self.stats.num_waiting:
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

    def _leader(self, request: AddSequence) -> Sequence | None:
        """The sequence whose prompt a new one shares, where it is still there."""
        if request.shares_prompt_with is None or request.num_prompt_top_logprobs is not None:
            return None
        leader = self._live.get(request.shares_prompt_with)
        if leader is None or leader.request.prompt_token_ids != request.prompt_token_ids:
            return None
        return leader if leader.request.cache_identity == request.cache_identity else None

    def _let_go(self) -> None:
        """Queue what was held back and is ready now."""
        for sequence in self._held.take_ready():
            self._waiting.push(sequence)
            pending, sequence.pending_constraint = sequence.pending_constraint, None
            if pending is not None:
                try:
                    sequence.constraint = pending.take()
                except ConstraintError as error:
                    self._fail(sequence, str(error))

    def _schedule_decodes(self, step: Step) -> None:
        """Add every sequence that lacks one token, the first first; the last may give way.

        The batch is never larger than the token budget, which so has room for each of them.
        """
        index = 0
        while index < len(self._running):
            sequence = self._running[index]
            index += 1
            if sequence.is_due and self._make_room(sequence):
                self._add_row(step, sequence, 1)

    def _make_room(self, sequence: Sequence) -> bool:
        """Get the KV block for the last token; False when the sequence itself had to give way."""
        while not self._memory.extend(sequence):
            last = self._running.pop()
            self._memory.preempt(last)
            self._waiting.push(last)
            self._counters.num_preemptions += 1
            if last is sequence:
                return False
        return True

    def _schedule_prompts(self, step: Step) -> None:
        """Share what is left among the prompts of the batch and those that come into it."""
        budget = self._limits.max_num_batched_tokens - step.num_tokens
        if step.rows:
            budget = min(budget, self._limits.max_prefill_chunk)
        prompts = [each for each in self._running if each.num_uncomputed_tokens > 1]
        for sequence in prompts:
            self._memory.catch_up(sequence)
        self._admit(prompts, budget)
        shares = share_budget([each.num_uncomputed_tokens for each in prompts], budget)
        for sequence, share in zip(prompts, shares, strict=True):
            if share > 0:
                chunk = (sequence.num_computed_tokens, share, sequence.num_uncomputed_tokens)
                self._add_row(step, sequence, align_chunk(*chunk, self._pool.block_size))

    def _admit(self, prompts: list[Sequence], budget: int) -> None:
        """Move sequences from the queue into the batch, in order, while each gets a share.

        One behind is let past a few that get none: a short prompt need not wait until the long
        ones before it are computed. Those are not passed over for ever, for the first of the
        prompts is sure of half. Nobody gets past one that lacks memory.

        One free block for each sequence of the batch stays in reserve, so that what is
        admitted is not preempted at once.
        """
        limits = self._limits
        max_num_running = min(limits.max_num_sequences, limits.max_num_batched_tokens)
        num_passed = 0
        while len(self._running) < max_num_running and num_passed <= _MAX_PASSED:
            sequence = next(islice(self._waiting.in_turn(), num_passed, None), None)
            if sequence is None:
                return
            placement = self._memory.find_place(sequence)
            if placement.num_taken_blocks + len(self._running) > self._pool.num_free:
                return
            index = bisect(prompts, sequence.rank, key=_rank)
            lengths = [each.num_uncomputed_tokens for each in prompts]
            lengths.insert(index, placement.num_uncomputed_tokens)
            if share_budget(lengths, budget)[index] == 0:
                num_passed += 1
                continue
            self._place(sequence, placement)
            prompts.insert(index, sequence)

    def _place(self, sequence: Sequence, placement: Placement) -> None:
        self._waiting.remove(sequence)
        self._memory.place(sequence, placement)
        if sequence.admission is None:
            sequence.admission = next(self._admissions)
            self._waiting.charge(sequence, placement.num_uncomputed_tokens)
        insort(self._running, sequence, key=_rank)

    def _add_row(self, step: Step, sequence: Sequence, num_tokens: int) -> None:
        step.add(sequence, num_tokens)
        if not sequence.has_started:
            sequence.has_started = True
            num_cached = sequence.num_computed_tokens
            self._outputs.append(
                SequenceOutput(sequence.sequence_id, [], started=True, num_cached_tokens=num_cached)
            )
            # A prompt counts once, however many candidates continue it.
            if sequence.request.shares_prompt_with is None:
                self._counters.num_prompt_tokens += len(sequence.request.prompt_token_ids)
                self._counters.num_cached_prompt_tokens += num_cached

    def _is_sound(self, result: RowOutput | RowFault, row: BatchRow) -> TypeGuard[RowOutput]:
        if not isinstance(result, RowOutput):
            return False
        return row.sampling is None or result.token_id in range(self._limits.vocabulary_size)

    def _commit_row(self, sequence: Sequence, row: BatchRow, result: RowOutput) -> None:
        if result.token_id is not None:
            self._memory.vouch(sequence)
        if result.is_late:
            self._drop(sequence)
        if sequence.abort_requested:
            return
        told = sequence.take_prompt_logprobs(row, result.prompt_logprobs)
        if result.token_id is None:
            if told:
                output = SequenceOutput(sequence.sequence_id, [], prompt_logprobs=told)
                self._outputs.append(output)
            return
        self._waiting.charge(sequence, 1)
        finish = sequence.append(result.token_id)
        if finish == "failed":
            self._fail(sequence, "token outside its constraint")
            return
        output = SequenceOutput(
            sequence.sequence_id,
            [result.token_id],
            finish=finish,
            logprobs=[] if result.logprobs is None else [result.logprobs],
            prompt_logprobs=told,
        )
        if finish is None:
            self._outputs.append(output)
        else:
            self._end(sequence, output)

    def _end_aborted(self) -> None:
        for sequence in self._aborted:
            self._end(sequence, SequenceOutput(sequence.sequence_id, [], finish="aborted"))
        self._aborted.clear()

    def _fail(self, sequence: Sequence, why: str) -> None:
        _log_failure(sequence.sequence_id, why)
        self._end(sequence, SequenceOutput(sequence.sequence_id, [], finish="failed"))

    def _end(self, sequence: Sequence, output: SequenceOutput) -> None:
        """The one way out: forget the sequence, free its blocks, tell the front."""
        del self._live[sequence.sequence_id]
        sequence.has_ended = True
        self._drop(sequence)
        if sequence.block_ids:
            self._running.remove(sequence)
            self._memory.release(sequence)
        elif sequence in self._held:
            self._held.remove(sequence)
        else:
            self._waiting.remove(sequence)
        if not sequence.output_token_ids:
            self._held.replace_leader(sequence)
        self._outputs.append(output)

    def _drop(self, sequence: Sequence) -> None:
        """Steps in progress were begun before the sequence was known to be another."""
        for step in self._begun:
            step.drop(sequence)


def _rank(sequence: Sequence) -> tuple[int, int]:
    return sequence.rank


def _log_failure(sequence_id: int, why: str) -> None:
    log_event(_log, logging.ERROR, "sequence failed", sequence_id=sequence_id, why=why)
