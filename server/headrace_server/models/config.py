"""The shape of a decoder, read from a model directory's config.json."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace_server.engine.model_runner import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SUPPORTED_ARCHITECTURES = (
    "LlamaForCausalLM",
    "MistralForCausalLM",
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "SmolLM3ForCausalLM",
    "Phi3ForCausalLM",
    "GraniteForCausalLM",
)

# The rotary scalings, with the parameters that each cannot do without.
_ROPE_PARAMETERS = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor",),
}

# Those that a file may leave out or set to null.
_OPTIONAL_YARN_PARAMETERS = (
    *("attention_factor", "beta_fast", "beta_slow"),
    *("mscale", "mscale_all_dim"),
)

# Far more than any model has; it bounds what a damaged file makes the start do.
_MAX_LAYERS = 4096
_MAX_SIZE = 2**31 - 1

# What transformers assumes where config.json of the architecture says nothing.
_DEFAULT_MISTRAL_SLIDING_WINDOW = 4096
_DEFAULT_QWEN_MAX_WINDOW_LAYERS = 28
_DEFAULT_QWEN3_HEAD_DIM = 128
_DEFAULT_ROPE_THETA = 10_000.0
_DEFAULT_SMOLLM3_ROPE_THETA = 2_000_000.0
_DEFAULT_SMOLLM3_NO_ROPE_INTERVAL = 4
_DEFAULT_PHI3_NORM_EPSILON = 1e-5


class UnsupportedModelError(ModelLoadError):
    """The decoder does not implement the model; another one may."""


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary position embedding.

    Args:
        type: ``default``, ``linear``, ``llama3`` or ``yarn``.
        theta: base of the wavelengths.
        scaling: the parameters of the type, named as in config.json.
        original_context_length: the context before scaling.
    """

    type: str
    theta: float
    scaling: Mapping[str, Any]
    original_context_length: int


@dataclass(frozen=True, slots=True)
class Multipliers:
    """Constant factors (Granite); they are multiplied into the weights.

    Args:
        embedding: of the embeddings.
        query: of the queries, beside the usual 1 / sqrt(head_dim) of the scores.
        residual: of what attention and MLP add to the hidden state.
        logits: of the logits.
    """

    embedding: float = 1.0
    query: float = 1.0
    residual: float = 1.0
    logits: float = 1.0


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The shape of a decoder.

    Args:
        architecture: one of `SUPPORTED_ARCHITECTURES`.
        layer_windows: per layer, the number of most recent tokens a token attends
            to, itself included; None for all of them.
        layer_rotations: per layer, whether queries and keys are rotated.
        rotary_dim: how many of the first numbers of a head are rotated.
        qk_norm: whether queries and keys are normalised per head.
        tied_head: whether the output head is the embedding matrix.
        fused_projections: whether the checkpoint has queries, keys and values as one matrix,
            and gate and up projection as another.
    """

    architecture: str
    vocabulary_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm_epsilon: float
    context_length: int
    rope: RopeConfig
    layer_windows: tuple[int | None, ...]
    layer_rotations: tuple[bool, ...]
    rotary_dim: int
    qk_norm: bool
    tied_head: bool
    fused_projections: bool
    multipliers: Multipliers


def read_config(directory: Path) -> DecoderConfig:
    """Read config.json of a model directory.

    Raises:
        UnsupportedModelError: it describes a model that this decoder does not implement.
        ModelLoadError: the file is missing or broken, or the weights are quantized.
    """
    path = directory / "config.json"
    try:
        raw = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelLoadError(
            f"{directory} is not a model directory: it has no config.json."
        ) from None
    except (OSError, ValueError) as error:
        raise ModelLoadError(f"{path} cannot be read as JSON: {error}.") from error
    if not isinstance(raw, dict):
        raise ModelLoadError(f"{path} is not a JSON object.")
    try:
        config = _parse(raw)
    except KeyError as error:
        raise ModelLoadError(
            f"{path} lacks {error.args[0]!r}; the download is incomplete."
        ) from error
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelLoadError(f"{path} has a value of the wrong kind: {error}.") from error
    _check_shape(config, path)
    _check_numbers(config, path)
    return config


def _parse(raw: dict[str, Any]) -> DecoderConfig:
    _refuse_quantized(raw)
    architecture = _supported_architecture(raw)
    _refuse_variants(raw, architecture)
    num_layers = min(int(raw["num_hidden_layers"]), _MAX_LAYERS + 1)
    num_heads = int(raw["num_attention_heads"])
    hidden_size = int(raw["hidden_size"])
    default_head_dim = (
        _DEFAULT_QWEN3_HEAD_DIM
        if architecture == "Qwen3ForCausalLM"
        else hidden_size // max(num_heads, 1)
    )
    head_dim = int(raw.get("head_dim") or default_head_dim)
    default_epsilon = _DEFAULT_PHI3_NORM_EPSILON if architecture == "Phi3ForCausalLM" else 1e-6
    context_length = int(raw["max_position_embeddings"])
    rope = _parse_rope(raw, architecture, context_length)
    rotations = _layer_rotations(raw, architecture, num_layers)
    if rope.type == "yarn":
        # YaRN is switched on by its scaling entry; the plain limit often stays as it was.
        scaled = int(rope.original_context_length * rope.scaling["factor"])
        context_length = max(context_length, scaled)
    return DecoderConfig(
        architecture=architecture,
        vocabulary_size=int(raw["vocab_size"]),
        hidden_size=hidden_size,
        intermediate_size=int(raw["intermediate_size"]),
        num_layers=num_layers,
        num_heads=num_heads,
        num_kv_heads=int(raw.get("num_key_value_heads") or num_heads),
        head_dim=head_dim,
        norm_epsilon=float(raw.get("rms_norm_eps", default_epsilon)),
        context_length=context_length,
        rope=rope,
        layer_windows=_layer_windows(raw, architecture, rotations, context_length),
        layer_rotations=rotations,
        rotary_dim=int(head_dim * _partial_rotary_factor(raw)),
        qk_norm=architecture == "Qwen3ForCausalLM",
        tied_head=bool(raw.get("tie_word_embeddings", architecture == "SmolLM3ForCausalLM")),
        fused_projections=architecture == "Phi3ForCausalLM",
        multipliers=_multipliers(raw, architecture, head_dim),
    )


def _supported_architecture(raw: Mapping[str, Any]) -> str:
    names = raw.get("architectures") or [raw["model_type"]]
    for name in names:
        if name in SUPPORTED_ARCHITECTURES:
            return str(name)
    raise UnsupportedModelError(
        f"The own decoder does not compute the architecture {', '.join(map(str, names))}; "
        f"it computes {', '.join(SUPPORTED_ARCHITECTURES)}."
    )


def _refuse_quantized(raw: Mapping[str, Any]) -> None:
    if raw.get("quantization_config"):
        method = raw["quantization_config"].get("quant_method", "unknown")
        raise ModelLoadError(
            f"The weights are quantized ({method}), which is not supported; "
            "use the unquantized model or a GGUF file."
        )


def _refuse_variants(raw: Mapping[str, Any], architecture: str) -> None:
    """Refuse what would run and give wrong text."""
    activation = raw.get("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedModelError(
            f"The activation {activation!r} is not supported; only 'silu' is."
        )
    if architecture != "Phi3ForCausalLM" and _partial_rotary_factor(raw) != 1.0:
        raise UnsupportedModelError("Rotary embedding of a part of each head is not supported.")


def _partial_rotary_factor(raw: Mapping[str, Any]) -> float:
    inside = _rope_parameters(raw).get("partial_rotary_factor")
    return float(inside or raw.get("partial_rotary_factor") or 1.0)


def _rope_parameters(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return `rope_parameters`, or `rope_scaling` of older files."""
    return dict(raw.get("rope_parameters") or raw.get("rope_scaling") or {})


def _parse_rope(raw: Mapping[str, Any], architecture: str, context_length: int) -> RopeConfig:
    scaling = _rope_parameters(raw)
    if any(isinstance(value, dict) for value in scaling.values()):
        raise UnsupportedModelError(
            "Rotary embedding that differs between layers is not supported."
        )
    rope_type = scaling.get("rope_type", scaling.get("type", "default"))
    is_other_phi3 = architecture == "Phi3ForCausalLM" and rope_type != "default"
    if rope_type not in _ROPE_PARAMETERS or is_other_phi3:
        raise UnsupportedModelError(
            f"The rotary scaling {rope_type!r} is not supported; "
            f"supported are {', '.join(_ROPE_PARAMETERS)}."
        )
    is_smollm3 = architecture == "SmolLM3ForCausalLM"
    default_theta = _DEFAULT_SMOLLM3_ROPE_THETA if is_smollm3 else _DEFAULT_ROPE_THETA
    theta = scaling.get("rope_theta", raw.get("rope_theta", default_theta))
    original = raw.get("original_max_position_embeddings") or scaling.get(
        "original_max_position_embeddings", context_length
    )
    if rope_type == "yarn" and scaling.get("factor") is None:
        scaling["factor"] = context_length / int(original)
    for name in _ROPE_PARAMETERS[rope_type]:
        scaling[name] = float(scaling[name])
    for name in _OPTIONAL_YARN_PARAMETERS if rope_type == "yarn" else ():
        if scaling.get(name) is not None:
            scaling[name] = float(scaling[name])
    return RopeConfig(rope_type, float(theta), scaling, int(original))


def _layer_rotations(
    raw: Mapping[str, Any], architecture: str, num_layers: int
) -> tuple[bool, ...]:
    if architecture != "SmolLM3ForCausalLM":
        return (True,) * num_layers
    given = raw.get("no_rope_layers")  # despite the name, 1 says that a layer has it
    if given is not None:
        return tuple(map(bool, given))
    interval = int(raw.get("no_rope_layer_interval", _DEFAULT_SMOLLM3_NO_ROPE_INTERVAL))
    return tuple((layer + 1) % interval != 0 for layer in range(num_layers))


def _multipliers(raw: Mapping[str, Any], architecture: str, head_dim: int) -> Multipliers:
    if architecture != "GraniteForCausalLM":
        return Multipliers()
    return Multipliers(
        embedding=float(raw.get("embedding_multiplier", 1.0)),
        query=float(raw.get("attention_multiplier", 1.0)) * math.sqrt(head_dim),
        residual=float(raw.get("residual_multiplier", 1.0)),
        logits=1.0 / float(raw.get("logits_scaling", 1.0)),
    )


def _layer_windows(
    raw: Mapping[str, Any], architecture: str, rotations: Sequence[bool], context_length: int
) -> tuple[int | None, ...]:
    num_layers = len(rotations)
    window = _sliding_window(raw, architecture)
    if window is None or window >= context_length:
        return (None,) * num_layers
    if architecture in ("MistralForCausalLM", "Phi3ForCausalLM"):
        return (window,) * num_layers
    layer_types = raw.get("layer_types")
    if layer_types is None and architecture == "SmolLM3ForCausalLM":
        return tuple(None if is_rotated else window for is_rotated in rotations)
    if layer_types is None:
        first = int(raw.get("max_window_layers", _DEFAULT_QWEN_MAX_WINDOW_LAYERS))
        return tuple(window if layer >= first else None for layer in range(num_layers))
    return tuple(window if kind == "sliding_attention" else None for kind in layer_types)


def _sliding_window(raw: Mapping[str, Any], architecture: str) -> int | None:
    may_be_off = architecture.startswith(("Qwen", "SmolLM3"))
    if architecture == "MistralForCausalLM":
        window = raw.get("sliding_window", _DEFAULT_MISTRAL_SLIDING_WINDOW)
    elif architecture == "Phi3ForCausalLM" or (may_be_off and raw.get("use_sliding_window")):
        window = raw.get("sliding_window")
    else:
        window = None
    return None if window is None else int(window)


def _check_shape(config: DecoderConfig, path: Path) -> None:
    sizes = (
        config.vocabulary_size,
        config.hidden_size,
        config.intermediate_size,
        config.num_layers,
        config.num_heads,
        config.num_kv_heads,
        config.head_dim,
        config.context_length,
    )
    if (
        min(sizes) < 1
        or max(sizes) > _MAX_SIZE
        or config.num_layers > _MAX_LAYERS
        or config.num_heads % config.num_kv_heads
        or config.head_dim % 2
        or config.rotary_dim % 2
        or not 0 < config.rotary_dim <= config.head_dim
        or len(config.layer_windows) != config.num_layers
        or len(config.layer_rotations) != config.num_layers
    ):
        raise ModelLoadError(f"{path} describes an impossible shape; the file is damaged.")


def _check_numbers(config: DecoderConfig, path: Path) -> None:
    """Refuse numbers with which every answer would be NaN."""
    rope = config.rope
    numbers = [rope.theta - 1, float(rope.original_context_length), config.norm_epsilon]
    numbers += [rope.scaling[name] for name in _ROPE_PARAMETERS[rope.type]]
    factors = config.multipliers
    numbers += [factors.embedding, factors.query, factors.residual, factors.logits]
    if rope.type == "llama3":
        numbers.append(rope.scaling["high_freq_factor"] - rope.scaling["low_freq_factor"])
    if rope.type == "yarn":
        given = (rope.scaling.get(name) for name in _OPTIONAL_YARN_PARAMETERS)
        numbers += [number for number in given if number]  # 0 is as good as not given
    if not all(0 < number < math.inf for number in numbers):
        raise ModelLoadError(
            f"{path} has numbers for the norm, the rotary embedding or the multipliers that no "
            "model can have; the file is damaged."
        )
