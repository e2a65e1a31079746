"""Chooses the decoder of a model directory and loads the model into it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace_server.models.config import UnsupportedModelError, read_config
from headrace_server.models.loaded_model import LoadedModel
from headrace_server.models.operations.fused_cpu import fits
from headrace_server.models.precision import choose_precision
from headrace_server.models.weights import load_decoder
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from pathlib import Path

    from headrace_server.engine.model_runner import ReportProgress
    from headrace_server.engine.settings import EngineSettings
    from headrace_server.models.config import DecoderConfig

_log = logging.getLogger("headrace_server.models")


def load_model(
    directory: Path, settings: EngineSettings, report_progress: ReportProgress
) -> LoadedModel:
    """Load a model into the own decoder, or into the fallback where the own one is none for it.

    Raises:
        ModelLoadError: neither can serve the model.
    """
    try:
        config = read_config(directory)
    except UnsupportedModelError as reason:
        # Imported where it is needed, for transformers takes seconds to import.
        from headrace_server.models.fallback.load import load_fallback

        loaded = load_fallback(directory, settings, str(reason), report_progress)
    else:
        loaded = _load_own(directory, config, settings, report_progress)
    log_event(
        _log,
        logging.INFO,
        "model loaded",
        decoder=loaded.kind,
        architecture=loaded.architecture,
        weights=loaded.precision.weights.value,
    )
    return loaded


def _load_own(
    directory: Path,
    config: DecoderConfig,
    settings: EngineSettings,
    report_progress: ReportProgress,
) -> LoadedModel:
    precision = choose_precision(
        settings.device,
        settings.dtype,
        settings.quantization,
        kernels_fit=fits(config, settings.block_size),
    )
    context_length = min(
        config.context_length, settings.max_context_length or config.context_length
    )
    return LoadedModel(
        kind="own",
        architecture=config.architecture,
        decoder=load_decoder(directory, config, context_length, precision, report_progress),
        kv_shape=config,
        vocabulary_size=config.vocabulary_size,
        context_length=context_length,
        precision=precision,
    )
