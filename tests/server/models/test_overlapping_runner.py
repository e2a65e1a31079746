"""The runner of GPUs on a CPU: a step takes its tokens from the one before without the host."""

import dataclasses

import pytest
import torch

from headrace_server.engine.model_runner import BatchRow, OverlappingRunner, PromptLogprobs
from headrace_server.models.overlapping_runner import OverlappingTorchRunner
from tests.server.engine.stepped_engine import SteppedEngine
from tests.server.models.sampling.reference import make_row

# Fills the blocks of the sampling, which so takes no copy of the logits.
VOCABULARY_SIZE = 128

# Draws that top-p drops at the first try, so that tokens come late.
SAMPLINGS = [
    {"temperature": 0.0},
    {"temperature": 2.0, "top_p": 0.3},
    {"temperature": 1.5, "top_k": 3, "num_top_logprobs": 2},
    {"temperature": 1.5, "logit_bias": {7: 2.0, 8: 2.0}, "min_output_tokens": 6},
]


class OverwritingDecoder:
    """Returns all logits in the same memory, as replayed graphs do."""

    def __init__(self, decoder):
        self._decoder = decoder
        self._buffer = torch.zeros(16, VOCABULARY_SIZE)

    def logits(self, step, cache):
        logits = self._decoder.logits(step, cache)
        self._buffer.fill_(torch.nan)
        return self._buffer[: len(logits)].copy_(logits)


@pytest.fixture(scope="module")
def runner(tiny_model, load_runner):
    _, directory = tiny_model("LlamaForCausalLM", vocab_size=VOCABULARY_SIZE)
    runner = load_runner(directory, device="cpu", dtype="float32", block_size=4)
    runner._decoder = OverwritingDecoder(runner._decoder)
    return runner


def answers(runner):
    """The engine that has answered some requests."""
    engine = SteppedEngine(runner=runner, num_blocks=64)
    for index in range(8):
        prompt = [(5 * i + index) % VOCABULARY_SIZE for i in range(3 + 2 * index)]
        options = {"max_output_tokens": 6 + index, "stop_token_ids": [4, 9], "seed": index}
        engine.add(index, prompt, **options | SAMPLINGS[index % len(SAMPLINGS)])
    return engine.run()


def logprobs_of(engine):
    return [told.logprob for index in range(8) for told in engine.logprobs[index]]


class CountingRunner(OverlappingTorchRunner):
    """Counts rows that await a token, and those whose token came late."""

    num_awaited_rows = num_late_rows = 0

    def begin(self, batch):
        self.num_awaited_rows += sum(row.awaited_row is not None for row in batch)
        return _CountingStep(self, super().begin(batch))


@dataclasses.dataclass
class _CountingStep:
    runner: CountingRunner
    pending: object

    def result(self):
        results = self.pending.result()
        self.runner.num_late_rows += sum(result.is_late for result in results)
        return results


def test_answers_are_those_of_the_plain_runner(runner):
    """With late tokens, stop tokens, a minimum, a bias, and log probabilities."""
    overlapping = CountingRunner(runner)
    assert isinstance(overlapping, OverlappingRunner)
    assert not isinstance(runner, OverlappingRunner)
    engine = answers(overlapping)
    plain = answers(runner)

    assert engine.answers == plain.answers
    assert engine.finishes == plain.finishes
    assert logprobs_of(engine) == pytest.approx(logprobs_of(plain), abs=1e-4)
    assert overlapping.num_awaited_rows > 0
    assert overlapping.num_late_rows > 0


def test_a_step_with_log_probabilities_of_a_prompt_takes_the_tokens_too(runner):
    """It is computed at once, and its rows that await a token are those of the step before."""
    greedy = make_row(temperature=0.0, position=3)
    first = [BatchRow(0, [1, 2, 3], 0, [0], greedy)]
    (token,) = runner.forward(first)
    told = BatchRow(1, [5, 6], 0, [2], None, PromptLogprobs([6], 1))

    expected = runner.forward([BatchRow(0, [token.token_id], 3, [0], greedy), told])
    overlapping = OverlappingTorchRunner(runner)
    pending = overlapping.begin(first)
    follower = BatchRow(0, [0], 3, [0], greedy, awaited_row=0)
    actual = overlapping.begin([follower, told]).result()

    assert pending.result() == [token]
    assert actual == expected
