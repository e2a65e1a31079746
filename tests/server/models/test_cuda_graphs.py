"""Recorded decode steps, with a recorder that computes again what a GPU would replay."""

import dataclasses
import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton", reason="Triton is not installed")

from headrace_server.models.cuda_graphs import GraphedDecoder, graph_sizes
from headrace_server.models.operations.fused_gpu import FusedGpuOperations
from headrace_server.models.overlapping_runner import OverlappingTorchRunner
from tests.server.engine.stepped_engine import SteppedEngine

MAX_ROWS = 5  # recorded are 1, 2, 4 and 5


class Recorder:
    """Computes at every replay; counts records and replays."""

    def __init__(self, memory_for=99):
        self.num_recorded = self.num_replays = 0
        self._memory_for = memory_for

    def __call__(self, compute):
        if self.num_recorded == self._memory_for:
            raise torch.OutOfMemoryError
        self.num_recorded += 1

        def replay():
            self.num_replays += 1
            compute()

        return replay


@pytest.fixture(scope="module")
def runner(tiny_model, load_runner):
    """A runner on a small model, its operations in Triton."""
    _, directory = tiny_model(
        "Qwen3ForCausalLM",
        head_dim=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    runner = load_runner(directory, dtype="float32", block_size=16, device="cpu")
    rotations = runner._decoder.operations._rotations
    runner._decoder = dataclasses.replace(runner._decoder, operations=FusedGpuOperations(rotations))
    return runner


def graphed(runner, recorder):
    decoder = GraphedDecoder(runner._decoder, runner._cache, num_blocks=8, max_rows=MAX_ROWS)
    decoder.record(recorder, lambda phase, fraction=None: None)
    return decoder


def eager_and_replayed(runner, make_sequences, recorder, lengths):
    """Logits of a step that continues prompts of these lengths, computed and replayed."""
    plain, decoder = runner._decoder, graphed(runner, recorder)
    sequences = make_sequences(runner)
    names = [sequences.add([(7 * i + length) % 90 for i in range(length)]) for length in lengths]
    sequences.logits(
        [sequences.row(name, length - 1) for name, length in zip(names, lengths, strict=True)]
    )
    step = [sequences.row(name) for name in names]
    eager = sequences.logits(step)
    runner._decoder = decoder
    try:
        replayed = sequences.logits(step).clone()
    finally:
        runner._decoder = plain
    return eager, replayed


@pytest.mark.parametrize("lengths", [[5], [17, 3, 2]], ids=str)
def test_a_replayed_step_gives_what_a_computed_one_gives(runner, make_sequences, lengths):
    """Also where the step is padded to the next size that is recorded."""
    recorder = Recorder()
    eager, replayed = eager_and_replayed(runner, make_sequences, recorder, lengths)
    torch.testing.assert_close(replayed, eager, atol=1e-5, rtol=1e-5)
    assert (recorder.num_recorded, recorder.num_replays) == (4, 1)


def test_what_a_larger_step_left_is_not_seen_by_a_smaller_one(runner, make_sequences):
    """Buffers that are used again hold nothing over."""
    decoder = graphed(runner, Recorder())
    sequences = make_sequences(runner)
    names = [sequences.add([3, 1 + name]) for name in range(3)]
    sequences.logits([sequences.row(name, 1) for name in names])
    rows = [sequences.row(name) for name in names]
    expected = sequences.logits(rows[:1])
    plain, runner._decoder = runner._decoder, decoder
    try:
        sequences.logits(rows)
        actual = sequences.logits(rows[:1]).clone()
    finally:
        runner._decoder = plain
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_prompts_are_computed(runner, make_sequences):
    """A step with more than one token of a row is not replayed."""
    recorder = Recorder()
    decoder = graphed(runner, recorder)
    sequences = make_sequences(runner)
    name = sequences.add([1, 2, 3])
    plain, runner._decoder = runner._decoder, decoder
    try:
        logits = sequences.logits([sequences.row(name)])
    finally:
        runner._decoder = plain
    assert (logits.shape, recorder.num_replays) == ((1, 97), 0)


def test_overlapping_steps_are_replayed_and_change_no_answer(runner):
    """A step is replayed before the results of the last are asked for."""
    options = {"temperature": 2.0, "top_p": 0.3, "stop_token_ids": [], "max_output_tokens": 6}
    recorder, answers = Recorder(), []
    plain, decoder = runner._decoder, graphed(runner, recorder)
    for steps, overlapping in ((plain, runner), (decoder, OverlappingTorchRunner(runner))):
        engine = SteppedEngine(runner=overlapping, num_blocks=8)
        for index in range(3):
            engine.add(index, [3, 1 + index], seed=index, **options)
        runner._decoder = steps
        try:
            answers.append(engine.run().answers)
        finally:
            runner._decoder = plain
    assert answers[0] == answers[1]
    assert recorder.num_replays >= 5


def test_what_there_is_no_memory_to_record_is_computed(runner, make_sequences):
    """The sizes that were recorded serve, and steps larger than these are computed."""
    recorder = Recorder(memory_for=0)
    eager, computed = eager_and_replayed(runner, make_sequences, recorder, [3, 2])
    torch.testing.assert_close(computed, eager, atol=1e-5, rtol=1e-5)
    assert recorder.num_replays == 0


def test_sizes_are_dense_where_padding_would_cost_most():
    """Few rows have sizes of their own; the most rows always have one."""
    actual = [graph_sizes(max_rows) for max_rows in (1, 3, 8, 20, 64)]
    expected = [[1], [1, 2, 3], [1, 2, 4, 8], [1, 2, 4, 8, 16, 20], [1, 2, 4, *range(8, 65, 8)]]
    assert actual == expected
