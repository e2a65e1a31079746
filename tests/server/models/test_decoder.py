"""The decoder against transformers, family by family."""

import dataclasses
import json

import pytest
import torch

from headrace_server.engine.model_runner import RowOutput
from tests.server.models.families import (
    LLAMA3,
    OWN_VARIANTS,
    assert_close,
    assert_steps_equal_transformers,
    reference,
    tokens_of,
)


@pytest.fixture(params=OWN_VARIANTS)
def pair(request, tiny_model):
    architecture, config = OWN_VARIANTS[request.param]
    return tiny_model(architecture, **config)


# In plain torch, and with compiled kernels, which round keys and values to fp16.
@pytest.mark.parametrize(
    ("settings", "tolerance"),
    [({"dtype": "float32", "block_size": 4}, 1e-4), ({"block_size": 8}, 1e-2)],
    ids=["torch", "kernels"],
)
def test_logits_equal_transformers(pair, load_runner, make_sequences, settings, tolerance):
    """Whole prompts, chunks, decode steps and any mix of them give transformers' logits."""
    model, directory = pair
    runner = load_runner(directory, max_num_sequences=16, **settings)
    assert (runner._precision.kernels is None) == ("dtype" in settings)
    assert_steps_equal_transformers(model, make_sequences(runner), tolerance)


def test_every_position_of_a_prompt_equals_transformers(tiny_model, load_runner, make_sequences):
    """Every prefix of a prompt, computed as a sequence of its own, gives that position's logits."""
    model, directory = tiny_model("LlamaForCausalLM")
    sequences = make_sequences(load_runner(directory, dtype="float32", block_size=4))
    prompt = tokens_of(30, 3)
    rows = [sequences.row(sequences.add(prompt[:length])) for length in range(1, 31)]
    assert_close(sequences.logits(rows), reference(model, prompt))


def test_older_config_names_are_read(tiny_model, load_runner, make_sequences):
    """rope_theta with rope_scaling says the same as rope_parameters."""
    model, directory = tiny_model("LlamaForCausalLM", rope_parameters=LLAMA3)
    path = directory / "config.json"
    config = json.loads(path.read_text())
    parameters = config.pop("rope_parameters")
    config["rope_theta"] = parameters.pop("rope_theta")
    config["rope_scaling"] = parameters
    path.write_text(json.dumps(config))
    sequences = make_sequences(load_runner(directory, dtype="float32", block_size=4))
    prompt = tokens_of(50, 4)
    assert_close(
        sequences.logits([sequences.row(sequences.add(prompt))])[0], reference(model, prompt)[-1]
    )


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("auto", 0.02), ("bfloat16", 0.5), ("float16", 0.05)]
)
def test_other_formats_are_close(tiny_model, load_runner, make_sequences, dtype, tolerance):
    """Packed fp16 weights, bf16 and fp16 give nearly the logits of float32."""
    model, directory = tiny_model("Qwen3ForCausalLM", head_dim=16)
    sequences = make_sequences(load_runner(directory, dtype=dtype, block_size=4))
    prompt = tokens_of(30, 5)
    index = sequences.add(prompt)
    sequences.logits([sequences.row(index, 20)])
    actual = sequences.logits([sequences.row(index)])[0]
    torch.testing.assert_close(actual, reference(model, prompt)[-1], atol=tolerance, rtol=0)


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16"])
def test_parts_of_prompts_choose_nothing(tiny_model, load_runner, make_sequences, dtype):
    """Rows without sampling give None, beside others and in a step of their own."""
    _, directory = tiny_model("LlamaForCausalLM")
    runner = load_runner(directory, dtype=dtype, block_size=4)
    sequences = make_sequences(runner)
    first, second = sequences.add(tokens_of(20, 1)), sequences.add(tokens_of(5, 2))
    part = dataclasses.replace(sequences.row(first, 8), sampling=None)
    assert runner.forward([part]) == [RowOutput(None)]
    part = dataclasses.replace(sequences.row(first, 1), sampling=None)
    other, nothing = runner.forward([sequences.row(second), part])
    assert other.token_id is not None
    assert nothing == RowOutput(None)
    whole = make_sequences(runner)
    assert runner.forward([sequences.row(first)]) == whole.step(
        [whole.row(whole.add(tokens_of(20, 1)))]
    )


def test_sharded_weights_are_read(tiny_model, load_runner, make_sequences):
    """Weights in several files with an index give the same logits."""
    model, directory = tiny_model("Qwen2ForCausalLM")
    for path in directory.glob("*.safetensors"):
        path.unlink()
    model.save_pretrained(directory, max_shard_size="20KB")
    assert len(list(directory.glob("*.safetensors"))) > 1
    sequences = make_sequences(load_runner(directory, dtype="float32", block_size=4))
    prompt = tokens_of(12, 6)
    assert_close(
        sequences.logits([sequences.row(sequences.add(prompt))])[0], reference(model, prompt)[-1]
    )


def test_nan_stays_in_its_row(tiny_model, load_runner, make_sequences):
    """A sequence that turns to NaN faults alone, and its blocks do not harm their next owner."""
    from headrace_server.engine.model_runner import RowFault

    _, directory = tiny_model("LlamaForCausalLM")
    runner = load_runner(directory, dtype="float32", block_size=4, max_num_sequences=1)
    sequences = make_sequences(runner)
    healthy = sequences.row(sequences.add(tokens_of(9, 7)))
    (alone,) = runner.forward([healthy])
    runner._decoder.embedding.weight[13] = torch.nan
    bad = sequences.row(sequences.add([13, 5, 6, 7, 8, 9, 10, 11, 12]))
    assert runner.forward([bad, healthy]) == [RowFault.NOT_A_NUMBER, alone]
    # The same blocks now belong to a shorter sequence, first as a prompt and then decoding.
    next_owner = make_sequences(runner)
    next_owner._free = list(bad.block_ids)
    index = next_owner.add(tokens_of(9, 7)[:6])
    expected = make_sequences(runner)
    expected._free = list(healthy.block_ids)
    other = expected.add(tokens_of(9, 7)[:6])
    for _ in range(6):
        assert next_owner.step([next_owner.row(index)]) == expected.step([expected.row(other)])
