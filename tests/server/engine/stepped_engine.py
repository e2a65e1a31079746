"""The engine without its process: scheduler and runner, by default a simulated one, by hand."""

from __future__ import annotations

from collections import defaultdict

from headrace_server.engine.block_pool import BlockPool
from headrace_server.engine.limits import SchedulerLimits
from headrace_server.engine.messages import AddSequence
from headrace_server.engine.model_runner import ModelDescription
from headrace_server.engine.pipeline import StepPipeline
from headrace_server.engine.scheduler import Scheduler
from headrace_server.engine.settings import SimulatedSettings
from headrace_server.engine.simulated_runner import SimulatedRunner
from headrace_server.engine.simulated_vocabulary import END_OF_TURN, VOCABULARY_SIZE

BLOCK_SIZE = 4


class SteppedEngine:
    """A scheduler over a runner; collects what the front would be told."""

    def __init__(
        self,
        *,
        runner=None,
        num_blocks=64,
        max_num_sequences=8,
        max_num_batched_tokens=64,
        max_prefill_chunk=16,
        pool_type=BlockPool,
        compiler=None,
        prefix_cache=True,
        is_checked=True,
    ):
        self.runner = runner = runner or simulated_runner(num_blocks)
        model = runner.description
        limits = SchedulerLimits(
            max_num_sequences, max_num_batched_tokens, max_prefill_chunk, model.vocabulary_size
        )
        pool = pool_type(num_blocks, model.block_size)
        self.scheduler = Scheduler(limits, pool, compiler, prefix_cache=prefix_cache)
        self._pipeline = StepPipeline(self.scheduler, runner)
        self._is_checked = is_checked
        self.answers = defaultdict(list)
        self.logprobs = defaultdict(list)
        self.prompt_logprobs = defaultdict(list)
        self.finishes = defaultdict(list)
        self.starts = defaultdict(int)
        self.num_cached_tokens = {}

    def add(self, sequence_id, prompt=b"prompt", **options):
        self.scheduler.add(add_sequence(sequence_id, prompt, **options))

    def step(self, during_forward=lambda: None):
        """Make one step and return the ids of its rows with their number of tokens."""
        rows = []
        if self._pipeline.begin():
            step, results = self._pipeline.wait()
            rows = step.rows
            during_forward()
            self.scheduler.commit(step, results)
        if self._is_checked:
            self.scheduler.check_integrity()
        for output in self.scheduler.take_outputs():
            self._take(output)
        return {row.sequence_id: len(row.token_ids) for row in rows}

    def _take(self, output):
        sequence_id = output.sequence_id
        if output.prompt_logprobs:
            assert self.answers[sequence_id] == []
        self.answers[sequence_id] += output.token_ids
        self.logprobs[sequence_id] += output.logprobs
        self.prompt_logprobs[sequence_id] += output.prompt_logprobs
        self.starts[sequence_id] += output.started
        if output.started:
            self.num_cached_tokens[sequence_id] = output.num_cached_tokens
        if output.finish is not None:
            self.finishes[sequence_id].append(output.finish)

    def run(self, max_num_steps=10_000):
        """Step until nothing is left."""
        for _ in range(max_num_steps):
            self.step()
            if not self.scheduler.has_work and not self._pipeline.is_busy:
                self.scheduler.check_integrity()
                return self
        raise AssertionError("the engine never gets done")


def simulated_runner(num_blocks=64):
    description = ModelDescription("", 1024, VOCABULARY_SIZE, num_blocks, BLOCK_SIZE, "cpu")
    return SimulatedRunner(description, SimulatedSettings(faults=True))


def add_sequence(sequence_id, prompt, **options):
    values = {
        "temperature": 0.0,
        "top_k": None,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": 0,
        "max_output_tokens": 20,
        "min_output_tokens": 0,
        "stop_token_ids": [END_OF_TURN],
    }
    return AddSequence(sequence_id, list(prompt), **(values | options))


def solo_answer(prompt=b"prompt", *, compiler=None, **options):
    """The answer to a request when nothing else runs and memory is plenty."""
    return solo_engine(prompt, compiler=compiler, **options).answers[0]


def solo_engine(prompt=b"prompt", *, compiler=None, **options):
    """An engine of plenty of memory that has made one answer."""
    engine = SteppedEngine(
        num_blocks=1024, max_num_batched_tokens=4096, compiler=compiler, is_checked=False
    )
    engine.add(0, prompt, **options)
    return engine.run()
