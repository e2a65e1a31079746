"""The facts about the machine and the software that the figures depend on."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil

# Those that decide how fast the products of a model are.
_CPU_FLAGS: Final = (
    "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile",
)  # fmt: skip
_PACKAGES: Final = ("headrace", "torch", "transformers", "grpcio", "aiohttp", "uvloop")


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts; versions are None where a package is absent."""

    cpu_model: str
    num_cores: int
    cpu_flags: tuple[str, ...]
    memory_bytes: int
    load_average: float
    system: str
    python: str
    commit: str
    versions: dict[str, str | None]


def describe_machine() -> Machine:
    """Look around; on other systems than Linux the CPU stays vague."""
    model, flags = _read_cpu()
    return Machine(
        cpu_model=model,
        num_cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0,
        cpu_flags=tuple(flag for flag in _CPU_FLAGS if flag in flags),
        memory_bytes=psutil.virtual_memory().total,
        load_average=os.getloadavg()[0],
        system=platform.platform(),
        python=platform.python_version(),
        commit=_commit(),
        versions={name: _version(name) for name in _PACKAGES},
    )


def _read_cpu() -> tuple[str, set[str]]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return platform.processor(), set()
    facts: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    family = f"family {facts.get('cpu family', '?')} model {facts.get('model', '?')}"
    model = f"{facts.get('model name', platform.machine())} ({family})"
    return model, set(facts.get("flags", "").split())


def _commit() -> str:
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
