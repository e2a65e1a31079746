"""What the decoders of transformers cannot serve is refused when it is loaded, in one sentence."""

import json

import pytest
import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models import weights
from headrace_server.models.attention.sdpa import Scoring
from headrace_server.models.fallback import decoder


def refusal(load_runner, model, **settings) -> str:
    with pytest.raises(ModelLoadError) as caught:
        load_runner(model, **settings)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    return message


@pytest.mark.parametrize(
    ("architecture", "config", "words"),
    [
        ("MambaForCausalLM", {"state_size": 4}, "one of attention that can be replaced"),
        ("BloomForCausalLM", {}, "one of attention that can be replaced"),
        ("BertLMHeadModel", {}, "attends to others than those before it"),
        ("OPTForCausalLM", {"is_causal": False}, "attends to others than those before it"),
        ("GptOssForCausalLM", {"num_local_experts": 4}, "its attention needs s_aux"),
        (
            "DeepseekV3ForCausalLM",
            {
                "num_key_value_heads": 4,
                "qk_rope_head_dim": 8,
                "qk_nope_head_dim": 8,
                "v_head_dim": 8,
                "kv_lora_rank": 16,
                "q_lora_rank": 16,
                "first_k_dense_replace": 3,
            },
            "keys and values differ in size",
        ),
        (
            "Llama4ForCausalLM",
            {"attention_chunk_size": 16, "num_local_experts": 2, "intermediate_size_mlp": 32},
            "attends to others than those before it",
        ),
        ("T5ForConditionalGeneration", {"d_kv": 8}, "it is no decoder of text"),
    ],
)
def test_models_with_other_attention(tiny_model, load_runner, architecture, config, words):
    """State spaces, other masks, other shapes and attention that is not replaced are told apart."""
    _, directory = tiny_model(architecture, **config)
    message = refusal(load_runner, directory)
    assert words in message
    assert architecture in message or "model type" in message


def test_models_that_look_at_more_than_text(tiny_model, load_runner):
    """A model type that nobody knows, and one that holds a model of text as a part, are refused."""
    _, directory = tiny_model("GPT2LMHeadModel")
    path = directory / "config.json"
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"model_type": "gpt-9"}))
    assert "needs code of its own, which is never run" in refusal(load_runner, directory)
    path.write_text(json.dumps(whole | {"model_type": "gpt-9", "auto_map": {"AutoConfig": "x.Y"}}))
    assert "needs code of its own, which is never run" in refusal(load_runner, directory)
    named = {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]}
    path.write_text(json.dumps(named))
    assert "more than a decoder of text" in refusal(load_runner, directory)


def test_quantization(tiny_model, load_runner):
    """Weights in few bits are for the own decoder; what cannot be had is not served as another."""
    _, directory = tiny_model("GPT2LMHeadModel")
    for quantization in ("int8", "q4"):
        message = refusal(load_runner, directory, quantization=quantization)
        assert "does not compute the architecture GPT2LMHeadModel" in message
        assert f"leave --quantization {quantization} out" in message
    for quantization in ("auto", "fp16", "none"):
        runner = load_runner(directory, quantization=quantization)
        assert runner._cache.layers[0].keys.dtype == torch.float32


def test_damaged_weights(tiny_model, load_runner, monkeypatch):
    """Weights that are missing, broken, pickled or too large for the machine are named."""
    model, directory = tiny_model("GPT2LMHeadModel")
    state = model.state_dict()
    lacking = {key: value for key, value in state.items() if "h.1.mlp.c_fc.weight" not in key}
    model.save_pretrained(directory, state_dict=lacking)
    assert "lack transformer.h.1.mlp.c_fc.weight" in refusal(load_runner, directory)
    model.save_pretrained(directory)
    monkeypatch.setattr(weights, "available_bytes", lambda device: 10_000)
    assert "only 0.00 GiB are free" in refusal(load_runner, directory)
    monkeypatch.undo()
    (directory / "model.safetensors").write_bytes(b"no weights")
    assert "model.safetensors is broken or truncated" in refusal(load_runner, directory)
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    assert "convert them to safetensors" in refusal(load_runner, directory)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("ignored", ["softcap", "scale", "window"])
def test_wrong_steps_are_noticed(tiny_model, load_runner, monkeypatch, ignored, dtype):
    """Attention that leaves out a part of what the model asks for does not come to serve."""
    config = {"attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 1, "sliding_window": 4}
    _, directory = tiny_model("Gemma2ForCausalLM", **config)
    load_runner(directory, dtype=dtype)

    def forgetful(window, scale, softcap):
        wanted = {"window": window, "scale": scale, "softcap": softcap} | {ignored: None}
        return Scoring(**wanted)

    monkeypatch.setattr(decoder, "Scoring", forgetful)
    assert "other answers than at once" in refusal(load_runner, directory, dtype=dtype)
