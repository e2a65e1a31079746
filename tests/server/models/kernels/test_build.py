"""The kernels compile for every CPU that they are written for."""

import ctypes
import shutil

import pytest

from headrace_server.models.kernels import build as kernels
from headrace_server.models.kernels.library import CpuKernels

COMPILER = kernels.find_compiler()
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler here")


@needs_compiler
@pytest.mark.parametrize("target", ["avx2", "avx2-vnni", "avx512"])
def test_x86_kernels_compile(tmp_path, target):
    """A target need not be this machine's to be compiled."""
    if "asimd" in kernels._cpu_features():
        pytest.skip("a compiler for ARM")
    kernels.compile_kernels(COMPILER, target, tmp_path / "made.so")
    assert (tmp_path / "made.so").stat().st_size > 10_000


@pytest.mark.parametrize("target", ["neon", "neon-dotprod"])
def test_arm_kernels_compile(tmp_path, target):
    """The cross compiler takes the NEON side of every function."""
    compiler = shutil.which("aarch64-linux-gnu-g++")
    if compiler is None:
        pytest.skip("no compiler for ARM here")
    kernels.compile_kernels(compiler, target, tmp_path / "made.so")
    assert (tmp_path / "made.so").stat().st_size > 10_000


@needs_compiler
def test_a_build_is_kept(tmp_path, monkeypatch):
    """The second start finds the library; a changed source would have another name."""
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    target = kernels.choose_target()
    if target is None:
        pytest.skip("a CPU without kernels")
    path = kernels.build(target)
    made = path.stat().st_mtime_ns
    assert kernels.build(target) == path
    assert path.stat().st_mtime_ns == made
    assert list(path.parent.iterdir()) == [path]
    assert CpuKernels(path, target).target == target


def test_without_a_compiler_the_reason_is_told(tmp_path, monkeypatch):
    """What is missing is named, and nothing half made stays behind."""
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(kernels.KernelBuildError, match="/bin/false failed"):
        kernels.build("avx2")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(kernels.KernelBuildError, match="no C\\+\\+ compiler was found"):
        kernels.build("avx2")
    assert not list(tmp_path.rglob("*.so"))


@needs_compiler
def test_a_library_of_another_interface_is_refused(tmp_path):
    """A stale file is told apart before it is called."""
    source = tmp_path / "other.cpp"
    source.write_text('extern "C" int headrace_interface_version() { return 999; }')
    library = tmp_path / "other.so"
    import subprocess

    subprocess.run([COMPILER, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    with pytest.raises(OSError, match="interface version 999"):
        CpuKernels(library, "avx2")
    assert ctypes.CDLL(str(library)).headrace_interface_version() == 999
