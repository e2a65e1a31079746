"""GGUF metadata → config.json and generation_config.json."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace_server.engine.model_runner import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gguf import GGUFReader

    from headrace_server.models.gguf.metadata import GgufMetadata

# GGUF's name of an architecture → that of transformers, with its model_type.
ARCHITECTURES = {
    "llama": ("LlamaForCausalLM", "llama"),
    "qwen2": ("Qwen2ForCausalLM", "qwen2"),
    "qwen3": ("Qwen3ForCausalLM", "qwen3"),
}

# Variants of these architectures that the decoder does not compute.
_UNSUPPORTED_KEYS = ("expert_count", "logit_scale", "residual_scale", "embedding_scale")

# Every published Llama with the scaling `llama3` has these; the file holds only their result.
_LLAMA3_LOW, _LLAMA3_HIGH, _LLAMA3_ORIGINAL = 1.0, 4.0, 8192


def read_architecture(metadata: GgufMetadata) -> str:
    """Return GGUF's name of the architecture, one of `ARCHITECTURES`."""
    architecture = metadata.get("general.architecture", str)
    if architecture not in ARCHITECTURES:
        raise ModelLoadError(
            f"The architecture {architecture!r} is not supported in GGUF files; "
            f"supported are {', '.join(ARCHITECTURES)}."
        )
    for key in _UNSUPPORTED_KEYS:
        if metadata.find(f"{architecture}.{key}", float):
            raise ModelLoadError(
                f"The model has {architecture}.{key}, which this decoder does not implement."
            )
    return architecture


def build_config(metadata: GgufMetadata, reader: GGUFReader) -> dict[str, Any]:
    """Return the content of config.json."""
    architecture = read_architecture(metadata)
    name, model_type = ARCHITECTURES[architecture]

    def integer(key: str) -> int:
        return metadata.get(f"{architecture}.{key}", int)

    shapes = {tensor.name: tensor.shape.tolist() for tensor in reader.tensors}
    num_heads = integer("attention.head_count")
    head_dim = metadata.find(f"{architecture}.attention.key_length", int)
    head_dim = head_dim or integer("embedding_length") // max(num_heads, 1)
    if (metadata.find(f"{architecture}.rope.dimension_count", int) or head_dim) != head_dim:
        raise ModelLoadError("Rotary embedding of a part of each head is not supported.")
    if "token_embd.weight" not in shapes:
        raise ModelLoadError("The GGUF file has no 'token_embd.weight'; it holds no whole model.")
    return {
        "architectures": [name],
        "model_type": model_type,
        "vocab_size": shapes["token_embd.weight"][1],
        "hidden_size": integer("embedding_length"),
        "intermediate_size": integer("feed_forward_length"),
        "num_hidden_layers": integer("block_count"),
        "num_attention_heads": num_heads,
        "num_key_value_heads": metadata.find(f"{architecture}.attention.head_count_kv", int)
        or num_heads,
        "head_dim": head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": metadata.get(f"{architecture}.attention.layer_norm_rms_epsilon", float),
        "max_position_embeddings": integer("context_length"),
        "rope_parameters": _rope_parameters(metadata, architecture, head_dim, reader),
        "tie_word_embeddings": "output.weight" not in shapes,
        "attention_bias": "blk.0.attn_q.bias" in shapes,
        "dtype": "float16",
        **_special_token_ids(metadata),
    }


def build_generation_config(
    metadata: GgufMetadata, sampling: Mapping[str, float]
) -> dict[str, Any]:
    """Return the content of generation_config.json.

    Args:
        metadata: of the file; recommended sampling in it is taken over.
        sampling: recommended sampling that the file does not hold.
    """
    recommended: dict[str, float] = {}
    for name, key, kind in (
        ("temperature", "temp", float),
        ("top_k", "top_k", int),
        ("top_p", "top_p", float),
        ("min_p", "min_p", float),
    ):
        value = metadata.find(f"general.sampling.{key}", kind)
        if value is not None:
            recommended[name] = value
    recommended.update(sampling)
    # End of turn and end of message end an answer just as the end of text does.
    ends = [metadata.find(f"tokenizer.ggml.{kind}_token_id", int) for kind in ("eos", "eot", "eom")]
    config: dict[str, Any] = dict(_special_token_ids(metadata))
    config["eos_token_id"] = list(dict.fromkeys(end for end in ends if end is not None))
    if recommended:
        config |= {"do_sample": True, **recommended}
    return config


def _special_token_ids(metadata: GgufMetadata) -> dict[str, int]:
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    ids = {
        f"{name}_token_id": metadata.find(f"tokenizer.ggml.{key}_token_id", int)
        for name, key in names.items()
    }
    return {name: token_id for name, token_id in ids.items() if token_id is not None}


def _rope_parameters(
    metadata: GgufMetadata, architecture: str, head_dim: int, reader: GGUFReader
) -> dict[str, Any]:
    theta = metadata.find(f"{architecture}.rope.freq_base", float) or 10_000.0
    factors = next((t.data for t in reader.tensors if t.name == "rope_freqs.weight"), None)
    if factors is not None:
        return _llama3_parameters(np.asarray(factors, dtype=np.float64), theta, head_dim)
    scaling = metadata.find(f"{architecture}.rope.scaling.type", str) or "none"
    if scaling == "none":
        return {"rope_type": "default", "rope_theta": theta}
    if scaling not in ("linear", "yarn"):
        raise ModelLoadError(
            f"The rotary scaling {scaling!r} is not supported; supported are linear and yarn."
        )
    parameters = {
        "rope_type": scaling,
        "rope_theta": theta,
        "factor": metadata.get(f"{architecture}.rope.scaling.factor", float),
    }
    if scaling == "yarn":
        parameters["original_max_position_embeddings"] = metadata.get(
            f"{architecture}.rope.scaling.original_context_length", int
        )
    return parameters


def _llama3_parameters(factors: np.ndarray, theta: float, head_dim: int) -> dict[str, Any]:
    """Recover the parameters whose effect, one divisor per frequency, the file holds."""
    factor = float(factors.max())
    frequencies = theta ** -(np.arange(0, head_dim, 2) / head_dim)
    turns = _LLAMA3_ORIGINAL * frequencies / (2 * math.pi)
    keep = np.clip((turns - _LLAMA3_LOW) / (_LLAMA3_HIGH - _LLAMA3_LOW), 0.0, 1.0)
    if factors.shape != keep.shape or not np.allclose(
        1 / factors, (1 - keep) / factor + keep, rtol=1e-3
    ):
        raise ModelLoadError("The rotary frequencies of the GGUF file are not those of Llama 3.")
    return {
        "rope_type": "llama3",
        "rope_theta": theta,
        "factor": factor,
        "low_freq_factor": _LLAMA3_LOW,
        "high_freq_factor": _LLAMA3_HIGH,
        "original_max_position_embeddings": _LLAMA3_ORIGINAL,
    }
