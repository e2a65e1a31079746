"""The runner's log probabilities, of prompts and of answers, against transformers."""

import dataclasses

import pytest
import torch

from headrace_server.engine.model_runner import PromptLogprobs, RowFault
from headrace_server.models import prompt_pieces
from headrace_server.models.kernels.library import load_kernels

# With the kernels a row is the same to the bit in any batch; in plain torch, on some CPUs only.
TOLERANCE = 0.0 if load_kernels() is not None else 1e-4


@pytest.fixture(scope="module")
def model_and_directory(tiny_model):
    return tiny_model("LlamaForCausalLM")


@pytest.fixture(scope="module", params=["own decoder", "decoder of transformers"])
def pair(request, model_and_directory, load_runner, load_fallback_runner):
    """The model in transformers and in a runner that computes it as exactly."""
    model, directory = model_and_directory
    load = load_runner if request.param == "own decoder" else load_fallback_runner
    return model, load(directory, dtype="float32", block_size=16, max_num_sequences=16)


def tokens_of(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 97, (length,), generator=generator).tolist()


def reference(model, tokens):
    """The log probabilities of transformers after each token."""
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0].log_softmax(dim=-1)


def told_row(sequences, sequence: int, num_tokens: int, num_top: int, **sampling):
    """The next tokens of a prompt as a row that tells of it, sampled at the prompt's end."""
    tokens, start = sequences.tokens[sequence], sequences.num_computed[sequence]
    row = sequences.row(sequence, num_tokens, **sampling)
    end = start + num_tokens
    targets = PromptLogprobs(tokens[start + 1 : end + 1], num_top)
    is_end = end == len(tokens)
    return dataclasses.replace(
        row, prompt_logprobs=targets, sampling=row.sampling if is_end else None
    )


def assert_told(told, expected, targets, num_top: int):
    assert [record.logprob for record in told] == pytest.approx(
        expected.gather(1, torch.tensor(targets)[:, None])[:, 0].tolist(), abs=2e-4
    )
    for record, row in zip(told, expected, strict=True):
        assert record.top_logprobs == pytest.approx(row.topk(num_top).values.tolist(), abs=2e-4)
        assert record.top_logprobs == pytest.approx(row[record.top_token_ids].tolist(), abs=2e-4)


@pytest.mark.parametrize("max_num_logits", [1000, 7])
def test_prompts_are_told_as_by_transformers(pair, make_sequences, monkeypatch, max_num_logits):
    """In chunks beside other rows, and cut where logits would not fit in memory."""
    monkeypatch.setattr(prompt_pieces, "_MAX_LOGITS_BYTES", max_num_logits * 97 * 4)
    model, runner = pair
    sequences = make_sequences(runner)
    first, second = tokens_of(41, 0), tokens_of(23, 1)
    told_first, told_second = [], []
    for tokens in (first, second, tokens_of(9, 2), tokens_of(5, 3)):
        sequences.add(tokens)
    for num_first, num_second, num_third in ((20, 1, 9), (1, 15, 1), (20, 7, 1)):
        rows = [
            told_row(sequences, 0, num_first, 5),
            sequences.row(2, num_third),
            told_row(sequences, 1, num_second, 0, num_top_logprobs=2),
        ]
        outputs = sequences.step(rows)
        told_first += outputs[0].prompt_logprobs
        told_second += outputs[2].prompt_logprobs
        assert outputs[1].prompt_logprobs == ()
    assert_told(told_first, reference(model, first)[:-1], first[1:], 5)
    assert_told(told_second, reference(model, second)[:-1], second[1:], 0)
    assert outputs[0].token_id == reference(model, first)[-1].argmax().item()
    assert outputs[2].logprobs.top_token_ids[0] == outputs[2].token_id
    assert_told([outputs[2].logprobs], reference(model, second)[-1:], [outputs[2].token_id], 2)


def test_rows_of_one_token_get_their_own_logits(pair, make_sequences):
    """Parts of prompts of one token, between answers, tell of themselves."""
    model, runner = pair
    sequences = make_sequences(runner)
    prompts = [tokens_of(length, seed) for seed, length in enumerate((9, 3, 6))]
    for prompt in prompts:
        sequences.add(prompt)
    sequences.step([sequences.row(0), sequences.row(2)])
    expected = reference(model, prompts[1])
    told = []
    for _ in range(2):
        rows = [sequences.row(0), told_row(sequences, 1, 1, 1), sequences.row(2)]
        outputs = sequences.step(rows)
        told += outputs[1].prompt_logprobs
    assert_told(told, expected[:2], prompts[1][1:], 1)
    for index in (0, 2):
        answered = sequences.tokens[index]
        assert answered[-1] == reference(model, answered[:-1])[-1].argmax().item()


def test_what_is_told_does_not_depend_on_the_batch(
    model_and_directory, load_runner, make_sequences, monkeypatch
):
    """A prompt and its answer are told the same alone, in company and in pieces."""
    runner = load_runner(model_and_directory[1], block_size=16, max_num_sequences=16)
    prompt = tokens_of(50, 4)

    def tell(*others: int, max_num_logits: int = 1000) -> list[float]:
        monkeypatch.setattr(prompt_pieces, "_MAX_LOGITS_BYTES", max_num_logits * 97 * 4)
        sequences = make_sequences(runner)
        index = sequences.add(prompt)
        rows = [told_row(sequences, index, 50, 3, temperature=0.8, num_top_logprobs=4)]
        for length in others:
            rows.insert(0, sequences.row(sequences.add(tokens_of(length, length))))
        output = runner.forward(rows)[-1]
        records = [*output.prompt_logprobs, output.logprobs]
        return [number for record in records for number in (record.logprob, *record.top_logprobs)]

    alone = tell()
    for told in (tell(9, 30), tell(max_num_logits=13), tell(20, 20, 20, max_num_logits=1)):
        assert told == pytest.approx(alone, abs=TOLERANCE)


def test_nan_in_a_prompt_faults_its_row_alone(model_and_directory, load_runner, make_sequences):
    """Where the model's numbers are lost before the end of the prompt, the row ends."""
    runner = load_runner(model_and_directory[1], dtype="float32", block_size=16)
    sequences = make_sequences(runner)
    healthy = told_row(sequences, sequences.add(tokens_of(9, 7)), 9, 2)
    (alone,) = runner.forward([healthy])
    runner._decoder.embedding.weight[13] = torch.nan
    bad = told_row(sequences, sequences.add([5, 6, 13, 8, 9]), 4, 2)
    assert runner.forward([bad, healthy]) == [RowFault.NOT_A_NUMBER, alone]
