"""The decoders of transformers over the KV cache, against their plain forward."""

import dataclasses

import pytest
import torch

from headrace_server.engine.model_runner import RowOutput
from tests.server.models.families import (
    FALLBACK_VARIANTS,
    FALLBACK_VARIANTS_OF_OWN,
    OWN_VARIANTS,
    assert_close,
    assert_steps_equal_transformers,
    tokens_of,
)

# Of the own decoder's families one variant each, so that the two are compared.
SHARED = (
    *("llama-llama3", "mistral-window", "qwen2", "qwen3"),
    *("smollm3-window", "phi3", "granite-tied"),
)
VARIANTS = (
    FALLBACK_VARIANTS | FALLBACK_VARIANTS_OF_OWN | {name: OWN_VARIANTS[name] for name in SHARED}
)


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_equal_transformers(name, tiny_model, load_fallback_runner, make_sequences):
    """Whole prompts, chunks, decode steps and any mix of them give transformers' logits."""
    architecture, config = VARIANTS[name]
    model, directory = tiny_model(architecture, **config)
    runner = load_fallback_runner(directory, block_size=4, max_num_sequences=16)
    assert_steps_equal_transformers(model, make_sequences(runner), 1e-4)


@pytest.mark.parametrize("name", SHARED)
def test_own_and_fallback_agree(
    name, tiny_model, load_runner, load_fallback_runner, make_sequences
):
    """Both decoders give the same logits for a prompt and choose the same tokens behind it."""
    _, directory = tiny_model(OWN_VARIANTS[name][0], **OWN_VARIANTS[name][1])
    prompt = tokens_of(30, 1)
    logits, chosen = [], []
    for load in (load_runner, load_fallback_runner):
        sequences = make_sequences(load(directory, dtype="float32", block_size=4))
        logits.append(sequences.logits([sequences.row(sequences.add(prompt))])[0])
        index = sequences.add(prompt)
        for _ in range(8):
            sequences.step([sequences.row(index)])
        chosen.append(sequences.tokens[index])
    assert_close(*logits)
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 38


def test_the_choice_follows_config_json(tiny_model, load_runner, caplog):
    """Own where the own decoder computes the model, otherwise the fallback; the log says so."""
    caplog.set_level("INFO")
    for name in ("qwen2", "gpt2", "llama-gelu"):
        architecture, config = VARIANTS[name]
        _, directory = tiny_model(architecture, **config)
        runner = load_runner(directory, dtype="float32")
        assert runner.description.vocabulary_size == 97
        assert runner.description.context_length == 128
    loaded = [record.fields for record in caplog.records if record.msg == "model loaded"]
    assert [fields["decoder"] for fields in loaded] == ["own", "transformers", "transformers"]
    assert [fields["architecture"] for fields in loaded] == [
        "Qwen2ForCausalLM",
        "GPT2LMHeadModel",
        "LlamaForCausalLM",
    ]


def test_parts_of_prompts_choose_nothing(tiny_model, load_fallback_runner, make_sequences):
    """A step of parts of prompts alone has no logits, and leaves what the next step needs."""
    _, directory = tiny_model("GPT2LMHeadModel")
    runner = load_fallback_runner(directory, block_size=4)
    sequences, whole = make_sequences(runner), make_sequences(runner, seed=1)
    prompt = tokens_of(20, 1)
    expected = runner.forward([whole.row(whole.add(prompt))])
    index = sequences.add(prompt)
    part = dataclasses.replace(sequences.row(index, 8), sampling=None)
    assert runner.forward([part]) == [RowOutput(None)]
    assert runner.forward([sequences.row(index)]) == expected


def test_the_context_ends_where_rotations_change(tiny_model, load_runner):
    """Frequencies that depend on how long a sequence is are used where they do not, yet."""
    for name, context_length in (("phi3-longrope", 64), ("llama-dynamic", 128)):
        architecture, config = VARIANTS[name]
        _, directory = tiny_model(architecture, **config)
        assert load_runner(directory).description.context_length == context_length
        assert load_runner(directory, max_context_length=48).description.context_length == 48


@pytest.mark.parametrize(("dtype", "tolerance"), [("bfloat16", 0.5), ("float16", 0.1)])
def test_other_formats_are_close(
    tiny_model, load_runner, load_fallback_runner, make_sequences, dtype, tolerance
):
    """In bf16 and fp16 the fallback gives nearly the logits of float32."""
    _, directory = tiny_model("Olmo2ForCausalLM")
    prompt = tokens_of(30, 5)
    logits = []
    for chosen in ("float32", dtype):
        sequences = make_sequences(load_fallback_runner(directory, dtype=chosen))
        index = sequences.add(prompt)
        sequences.logits([sequences.row(index, 20)])
        logits.append(sequences.logits([sequences.row(index)])[0])
        assert logits[-1].dtype == torch.float32
    torch.testing.assert_close(logits[1], logits[0], atol=tolerance, rtol=0)
