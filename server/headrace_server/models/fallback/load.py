"""Loads a model directory into a decoder of transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import transformers
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.checkpoint import Checkpoint
from headrace_server.models.fallback import attention
from headrace_server.models.fallback.decoder import TransformersDecoder
from headrace_server.models.fallback.self_check import check_steps
from headrace_server.models.fallback.trial import find_attention_needs
from headrace_server.models.loaded_model import LoadedModel
from headrace_server.models.precision import choose_precision
from headrace_server.models.weights import check_memory

if TYPE_CHECKING:
    from pathlib import Path

    from headrace_server.engine.model_runner import ReportProgress
    from headrace_server.engine.settings import EngineSettings
    from headrace_server.models.precision import Precision

# These rotations are not the same for a sequence at every length beyond the original context.
_CHANGING_ROTATIONS = ("longrope", "su", "dynamic")

_MOST_WORDS = 200  # characters of an error of transformers that are told


def load_fallback(
    directory: Path, settings: EngineSettings, reason: str, report_progress: ReportProgress
) -> LoadedModel:
    """Load a model and see that steps over the KV cache give its answers.

    Args:
        directory: with config.json and safetensors.
        settings: of the engine.
        reason: why the own decoder is none for it.
        report_progress: told what takes time.

    Raises:
        ModelLoadError: the model cannot be served by this decoder either.
    """
    precision = _precision(settings, reason)
    report_progress("loading weights")
    config = _read_config(directory)
    context_length = _context_length(config)
    check_memory(Checkpoint(directory), precision)
    attention.register()
    model = _load_weights(directory, config, precision)
    report_progress("checking the model")
    try:
        needs = find_attention_needs(model, context_length)
        decoder = TransformersDecoder(model, needs.windows, precision)
        check_steps(decoder, needs, config.vocab_size)
    except ModelLoadError:
        raise
    except Exception as error:  # whatever the code of a model raises
        raise ModelLoadError(
            f"{type(model).__name__} cannot be served: its steps fail ({_first_line(error)}); "
            "see docs/models.md."
        ) from error
    return LoadedModel(
        kind="transformers",
        architecture=type(model).__name__,
        decoder=decoder,
        kv_shape=needs,
        vocabulary_size=config.vocab_size,
        context_length=min(context_length, settings.max_context_length or context_length),
        precision=precision,
    )


def _precision(settings: EngineSettings, reason: str) -> Precision:
    if settings.quantization in ("int8", "q4"):
        raise ModelLoadError(
            f"{reason} The decoder of transformers that takes its place multiplies plain weights: "
            f"leave --quantization {settings.quantization} out."
        )
    return choose_precision(settings.device, settings.dtype, "none")


def _read_config(directory: Path) -> Any:
    try:
        config = transformers.AutoConfig.from_pretrained(
            directory, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # whatever a damaged file makes it raise
        raise ModelLoadError(
            f"transformers cannot read {directory / 'config.json'} ({_first_line(error)}); its "
            "model is unknown, or needs code of its own, which is never run."
        ) from error
    names = ", ".join(config.architectures or [config.model_type])
    known = MODEL_FOR_CAUSAL_LM_MAPPING.get(type(config), None)
    if known is None or (config.architectures and known.__name__ not in config.architectures):
        raise ModelLoadError(
            f"The architecture {names} is not supported: it is no decoder of text that "
            f"transformers knows for the model type {config.model_type!r}; see docs/models.md."
        )
    if config.is_encoder_decoder or config.get_text_config() is not config:
        raise ModelLoadError(
            f"The architecture {names} is not supported: it is more than a decoder of text; "
            "see docs/models.md."
        )
    return config


def _context_length(config: Any) -> int:
    length = getattr(config, "max_position_embeddings", None)
    if not isinstance(length, int) or length < 1:
        raise ModelLoadError(
            f"The model type {config.model_type!r} cannot be served: its config.json has no "
            "max_position_embeddings, the number of positions that it knows."
        )
    rope = getattr(config, "rope_parameters", None) or {}
    by_layer_type = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    for parameters in by_layer_type:
        if parameters.get("rope_type") in _CHANGING_ROTATIONS:
            original = parameters.get("original_max_position_embeddings")
            length = min(length, int(original or length))
    return length


def _load_weights(
    directory: Path, config: Any, precision: Precision
) -> transformers.PreTrainedModel:
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        model, report = transformers.AutoModelForCausalLM.from_pretrained(
            directory,
            config=config,
            dtype=precision.activations,
            attn_implementation=attention.PAGED,
            use_safetensors=True,
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except Exception as error:  # whatever damaged files make it raise
        raise ModelLoadError(
            f"transformers cannot load the model in {directory} ({_first_line(error)})."
        ) from error
    lacking = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if lacking:
        raise ModelLoadError(
            f"The weights in {directory} lack {lacking[0]}, or have it in another shape; the "
            "download is incomplete, or config.json and the weights belong to different models."
        )
    model.eval().requires_grad_(requires_grad=False)
    placed: transformers.PreTrainedModel = model.to(precision.device)
    return placed


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:_MOST_WORDS].rstrip()
