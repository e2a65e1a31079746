"""The decoder against transformers, family by family."""

import dataclasses
import json

import pytest
import torch

from headrace_server.engine.model_runner import RowOutput

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}

VARIANTS = {
    "llama": ("LlamaForCausalLM", {}),
    "llama-tied": ("LlamaForCausalLM", {"tie_word_embeddings": True}),
    "llama-biased": ("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True}),
    "llama-one-kv-head": ("LlamaForCausalLM", {"num_key_value_heads": 1}),
    "llama-all-kv-heads": ("LlamaForCausalLM", {"num_key_value_heads": 4}),
    "llama-llama3": ("LlamaForCausalLM", {"rope_parameters": LLAMA3}),
    "llama-linear": ("LlamaForCausalLM", {"rope_parameters": LINEAR}),
    "mistral": ("MistralForCausalLM", {"sliding_window": None, "head_dim": 16}),
    "mistral-window": ("MistralForCausalLM", {"sliding_window": 11}),
    "qwen2": ("Qwen2ForCausalLM", {"tie_word_embeddings": True}),
    "qwen2-yarn": ("Qwen2ForCausalLM", {"rope_parameters": YARN}),
    "qwen2-yarn-attention": (
        "Qwen2ForCausalLM",
        {"rope_parameters": YARN | {"attention_factor": 0.7, "beta_fast": 16, "beta_slow": 2}},
    ),
    "qwen2-window": (
        "Qwen2ForCausalLM",
        {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3ForCausalLM", {"head_dim": 16}),
    "qwen3-biased": ("Qwen3ForCausalLM", {"attention_bias": True, "rope_parameters": LLAMA3}),
}


def tokens_of(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 97, (length,), generator=generator).tolist()


def reference(model, tokens):
    """The logits of transformers after each token."""
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0]


@pytest.fixture(params=VARIANTS)
def pair(request, tiny_model):
    architecture, config = VARIANTS[request.param]
    return tiny_model(architecture, **config)


def assert_close(actual, expected, tolerance=1e-4):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0)


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
    for layer in runner._cache.layers:  # what a row has not written must not reach it
        layer.keys.fill_(torch.nan)
        layer.values.fill_(torch.nan)
    sequences = make_sequences(runner)
    prompts = [tokens_of(length, seed) for seed, length in enumerate((41, 1, 23, 60, 9))]
    expected = [reference(model, prompt) for prompt in prompts]
    for prompt in prompts:
        sequences.add(prompt)
    # Each number is how many tokens of a sequence a step computes.
    steps = (
        [41, 1, 5, 16, 1],
        [0, 0, 1, 20, 2],
        [0, 0, 1, 1, 1],
        [0, 0, 2, 1, 1],
        [0, 0, 14, 22, 4],
    )
    for step in steps:
        rows = [sequences.row(index, count) for index, count in enumerate(step) if count]
        logits = sequences.logits(rows)
        for row, actual in zip(rows, logits, strict=True):
            last = sequences.num_computed[row.sequence_id] - 1
            assert_close(actual, expected[row.sequence_id][last], tolerance)
    assert sequences.num_computed == [41, 1, 23, 60, 9]


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
    runner._decoder.embedding[13] = torch.nan
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
