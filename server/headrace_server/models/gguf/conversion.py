"""Converts a GGUF file, once, into a model directory in the conversion cache."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from headrace_server.models.conversion_cache import cached_conversion

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace_server.engine.model_runner import ReportProgress

_FORMAT_VERSION = 3  # raise it when the same file is to be converted in another way


def convert_gguf(
    path: Path, report_progress: ReportProgress, sampling: Mapping[str, float] | None = None
) -> Path:
    """Return a model directory with the content of a GGUF file.

    Args:
        path: the file.
        report_progress: told the fraction that is done.
        sampling: recommended sampling that the file does not hold, named as in
            generation_config.json.

    Raises:
        ModelLoadError: the file is broken or not supported, or the cache cannot be written to.
    """
    recommended = dict(sampling or {})
    variant = json.dumps([_FORMAT_VERSION, recommended], sort_keys=True)

    def convert(directory: Path) -> None:
        _write(path, directory, recommended, report_progress)

    return cached_conversion(path, variant, convert)


def _write(
    path: Path,
    directory: Path,
    sampling: Mapping[str, float],
    report_progress: ReportProgress,
) -> None:
    # Imported here because only a conversion needs them.
    from headrace_server.models.gguf.config import build_config, build_generation_config
    from headrace_server.models.gguf.metadata import GgufMetadata, open_gguf
    from headrace_server.models.gguf.tensors import write_weights
    from headrace_server.models.gguf.tokenizer import write_tokenizer

    report_progress(f"reading {path.name}")
    reader = open_gguf(path)
    metadata = GgufMetadata(path, reader)
    config = build_config(metadata, reader)
    _write_json(directory / "config.json", config)
    _write_json(directory / "generation_config.json", build_generation_config(metadata, sampling))
    write_tokenizer(metadata, config["max_position_embeddings"], directory)
    template = metadata.find("tokenizer.chat_template", str)
    if template is not None:
        (directory / "chat_template.jinja").write_text(template, encoding="utf-8")
    write_weights(reader.tensors, config, directory, report_progress)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
