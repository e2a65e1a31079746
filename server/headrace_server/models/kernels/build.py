"""Compiles the CPU kernels for this machine, once, into the cache directory."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_server.models.cache_root import cache_root

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SOURCES = Path(__file__).parent / "cpu"
_COMPILERS = ("c++", "g++", "clang++")
_FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fno-math-errno", "-Wall")
_TIMEOUT_SECONDS = 300
_AVX2 = ("avx2", "fma", "f16c")
_AVX2_FLAGS = ("-mavx2", "-mfma", "-mf16c")

TARGETS: Mapping[str, tuple[frozenset[str], Sequence[str]]] = {
    "avx512": (
        frozenset({"avx512f", "avx512bw", "avx512vl", "avx512_vnni", *_AVX2}),
        (
            *("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512vnni", *_AVX2_FLAGS),
            "-Wno-maybe-uninitialized",  # of which GCC accuses its own header
        ),
    ),
    "avx2-vnni": (frozenset({"avx_vnni", *_AVX2}), ("-mavxvnni", *_AVX2_FLAGS)),
    "avx2": (frozenset(_AVX2), _AVX2_FLAGS),
    "neon-dotprod": (frozenset({"asimd", "asimddp"}), ("-march=armv8.2-a+dotprod",)),
    "neon": (frozenset({"asimd"}), ()),
}
"""By name, the best first: what a CPU must have, and how the compiler is told."""


class KernelBuildError(Exception):
    """The kernels could not be compiled; the message is what the compiler said."""


def usable_targets() -> Sequence[str]:
    """Return the targets that this CPU can run, the best first."""
    features = _cpu_features()
    return [name for name, (needed, _) in TARGETS.items() if needed <= features]


def choose_target() -> str | None:
    """Return the best target that this CPU can run; None when there is none."""
    return next(iter(usable_targets()), None)


def find_compiler() -> str | None:
    """Return the C++ compiler: ``CXX`` of the environment, or the first that is installed."""
    named = os.environ.get("CXX")
    return named or next(filter(None, map(shutil.which, _COMPILERS)), None)


def library_path(target: str) -> Path:
    """Return where the compiled kernels are kept; another source has another name."""
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(shlex.join((*_FLAGS, *TARGETS[target][1])).encode())
    return cache_root() / "kernels" / f"cpu-{target}-{digest.hexdigest()[:16]}.so"


def build(target: str) -> Path:
    """Compile the kernels unless it has been done, and return the library.

    Raises:
        KernelBuildError: there is no compiler, or it failed.
    """
    path = library_path(target)
    if path.exists():
        return path
    compiler = find_compiler()
    if compiler is None:
        names = ", ".join(_COMPILERS)
        raise KernelBuildError(f"no C++ compiler was found ({names}); install one such as g++")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as directory:
            made = Path(directory) / path.name
            compile_kernels(compiler, target, made)
            # Only a complete library gets its name, also when several processes build.
            made.replace(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelBuildError(str(error)) from error
    return path


def compile_kernels(compiler: str, target: str, output: Path) -> None:
    """Compile for a target, which need not be one of this machine.

    Raises:
        KernelBuildError: the compiler failed.
    """
    source = str(_SOURCES / "kernels.cpp")
    command = [*shlex.split(compiler), *_FLAGS, *TARGETS[target][1], source, "-o", str(output)]
    # The compiler is the one that this user has chosen.
    result = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
    )
    if result.returncode != 0:
        raise KernelBuildError(f"{compiler} failed: {result.stderr.strip()[-2000:]}")


def _cpu_features() -> frozenset[str]:
    is_arm = platform.machine().lower() in ("arm64", "aarch64")
    always = frozenset({"asimd"} if is_arm else ())
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return always
    name = "Features" if is_arm else "flags"
    found = next((line for line in lines if line.startswith(name)), "")
    return always | frozenset(found.partition(":")[2].split())


def main() -> int:
    """Build for this machine and say what was done."""
    target = choose_target()
    if target is None:
        _say("This CPU has no compiled kernels; the operations run in plain torch.")
        return 0
    try:
        path = build(target)
    except KernelBuildError as error:
        _say(f"The CPU kernels were not built, so serving will be slower: {error}")
        return 0
    _say(f"The CPU kernels for {target} are in {path}")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
