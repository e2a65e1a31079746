"""GGUF files give the logits of the model they were made from."""

import json
from pathlib import Path

import gguf
import pytest
import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.gguf.conversion import convert_gguf

F16 = gguf.GGMLQuantizationType.F16
QUANTIZATIONS = [
    gguf.GGMLQuantizationType[name]
    for name in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")
]
SHAPE = {
    "vocab_size": 264,
    "hidden_size": 64,
    "intermediate_size": 96,
    "head_dim": 16,
    "num_attention_heads": 4,
    "initializer_range": 0.1,
}


def mixed(name):
    """Another quantization for each part, as real files have."""
    return QUANTIZATIONS[sum(map(ord, name)) % len(QUANTIZATIONS)]


def silent(phase, fraction=None):
    pass


def convert(path: Path) -> Path:
    return convert_gguf(path, silent)


@pytest.mark.parametrize(
    ("architecture", "name", "config"),
    [
        ("llama", "LlamaForCausalLM", {}),
        ("llama", "LlamaForCausalLM", {"tie_word_embeddings": True}),
        ("qwen2", "Qwen2ForCausalLM", {"tie_word_embeddings": True}),
        ("qwen3", "Qwen3ForCausalLM", {}),
    ],
)
def test_logits_equal_the_source(
    tiny_model, gguf_file, byte_level, load_runner, make_sequences, architecture, name, config
):
    """A file of mixed quantizations gives the logits of transformers with its rounded weights."""
    model, _ = tiny_model(name, **(SHAPE | config))
    file = gguf_file(architecture)
    file.add_shape(model.config)
    file.add_tokenizer(byte_level)
    file.add_weights(model, mixed)
    runner = load_runner(file.close(), dtype="float32", block_size=4)
    sequences = make_sequences(runner)
    tokens = torch.randint(0, 264, (40,), generator=torch.Generator().manual_seed(1)).tolist()
    index = sequences.add(tokens)
    for count in (20, 1, 1, 18):
        actual = sequences.logits([sequences.row(index, count)])[0]
        with torch.inference_mode():
            expected = model(torch.tensor([tokens[: sequences.num_computed[index]]])).logits[0, -1]
        torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("scaling", ["llama3", "linear", "yarn"])
def test_rotary_scaling_is_recovered(tiny_model, gguf_file, byte_level, scaling):
    """The scaling in the file comes back as config.json says it."""
    parameters = {
        "llama3": {
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        "linear": {"factor": 2.0},
        "yarn": {"factor": 4.0, "original_max_position_embeddings": 32},
    }[scaling]
    rope = {"rope_type": scaling, "rope_theta": 500000.0, **parameters}
    model, _ = tiny_model("LlamaForCausalLM", **SHAPE, rope_parameters=rope)
    file = gguf_file("llama")
    file.add_shape(model.config)
    file.add_tokenizer(byte_level)
    if scaling == "llama3":  # llama.cpp keeps what each frequency is divided by
        plain = 500000.0 ** -(torch.arange(0, 16, 2) / 16)
        factors = (plain / model.model.rotary_emb.inv_freq).numpy()
        file.writer.add_tensor("rope_freqs.weight", factors)
    else:
        file.writer.add_rope_scaling_type(gguf.RopeScalingType(scaling))
        file.writer.add_rope_scaling_factor(parameters["factor"])
        if scaling == "yarn":
            file.writer.add_rope_scaling_orig_ctx_len(32)
    file.add_weights(model, lambda name: F16)
    config = json.loads((convert(file.close()) / "config.json").read_text())
    assert config["rope_parameters"] == pytest.approx(rope)


def test_large_weights_are_cut_into_files(
    monkeypatch, tiny_model, gguf_file, byte_level, load_runner, make_sequences
):
    """Weights beyond the size of a file go to several with an index, and load again."""
    monkeypatch.setattr("headrace_server.models.gguf.tensors._SHARD_BYTES", 50_000)
    model, _ = tiny_model("Qwen3ForCausalLM", **SHAPE, rms_norm_eps=1e-4)
    file = gguf_file("qwen3")
    file.add_shape(model.config)
    file.add_tokenizer(byte_level)
    file.add_weights(model, lambda name: F16)
    path = file.close()
    assert len(list(convert(path).glob("model-*.safetensors"))) > 1
    sequences = make_sequences(load_runner(path, dtype="float32"))
    actual = sequences.logits([sequences.row(sequences.add([3, 1, 4, 1, 5]))])[0]
    with torch.inference_mode():
        expected = model(torch.tensor([[3, 1, 4, 1, 5]])).logits[0, -1]
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)


def test_generation_config_has_every_end_and_recommended_sampling(
    tiny_model, gguf_file, byte_level
):
    """End of turn and end of message end a text too; sampling in the file is taken over."""
    model, _ = tiny_model("Qwen2ForCausalLM", **SHAPE)
    file = gguf_file("qwen2")
    file.add_shape(model.config)
    file.add_tokenizer(byte_level)
    file.writer.add_eot_token_id(7)
    file.writer.add_eom_token_id(0)
    file.writer.add_float32("general.sampling.temp", 0.5)
    file.writer.add_int32("general.sampling.top_k", 20)
    file.writer.add_chat_template("{{ messages }}")
    file.add_weights(model, lambda name: F16)
    directory = convert(file.close())
    assert json.loads((directory / "generation_config.json").read_text()) == {
        "eos_token_id": [0, 7],
        "do_sample": True,
        "temperature": 0.5,
        "top_k": 20,
    }
    assert (directory / "chat_template.jinja").read_text() == "{{ messages }}"


@pytest.fixture
def whole_file(tiny_model, gguf_file, byte_level):
    model, _ = tiny_model("Qwen2ForCausalLM", **SHAPE, tie_word_embeddings=True)
    file = gguf_file("qwen2")
    file.add_shape(model.config)
    file.add_tokenizer(byte_level)
    file.add_weights(model, lambda name: F16)
    return file.close()


def test_truncation_anywhere_is_one_clear_error(whole_file):
    """However much of a file is missing, the error says that it is truncated."""
    content = whole_file.read_bytes()
    for length in [0, 3, 4, 7, 20, *range(24, len(content) - 1, len(content) // 40)]:
        whole_file.write_bytes(content[:length])
        with pytest.raises(ModelLoadError, match="not a GGUF file, or is truncated"):
            convert(whole_file)


def test_what_cannot_be_computed_is_refused(tiny_model, gguf_file, byte_level):
    """Unknown architectures, unknown tensors, parts of a file and experts end with their names."""
    model, _ = tiny_model("Qwen2ForCausalLM", **SHAPE)

    def refused(architecture, change, words):
        file = gguf_file(architecture)
        file.add_shape(model.config)
        file.add_tokenizer(byte_level)
        if architecture == "qwen2":
            file.add_weights(model, lambda name: F16)
        change(file.writer)
        with pytest.raises(ModelLoadError, match=words):
            convert(file.close())
        file.path.unlink()

    refused("gemma3", lambda writer: None, "'gemma3' is not supported.*llama, qwen2, qwen3")
    refused("qwen2", lambda writer: writer.add_expert_count(8), "qwen2.expert_count")
    refused("qwen2", lambda writer: writer.add_uint16("split.count", 3), "one of 3 parts")
    unknown = torch.zeros(4).numpy()
    refused("qwen2", lambda writer: writer.add_tensor("blk.0.new", unknown), "'blk.0.new'")
    refused("qwen2", lambda writer: writer.add_rope_dimension_count(8), "part of each head")
