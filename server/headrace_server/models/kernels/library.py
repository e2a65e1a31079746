"""The compiled CPU kernels as Python calls; the structures mirror those of cpu/kernels.cpp."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from typing import TYPE_CHECKING, Any

from headrace_server.models.kernels.build import KernelBuildError, build, choose_target
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from pathlib import Path

_INTERFACE_VERSION = 2

_log = logging.getLogger(__name__)


class WeightsStruct(ctypes.Structure):
    """A packed matrix; see `packing.PackedWeights`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("bytes_per_panel", ctypes.c_int64),
        ("outputs", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("format", ctypes.c_int32),
    )


class NormStruct(ctypes.Structure):
    """The weight and epsilon of a normalisation; a null weight stands for none."""

    _fields_ = (("weight", ctypes.c_void_p), ("epsilon", ctypes.c_float))


class ProjectionStruct(ctypes.Structure):
    """What makes queries, keys and values."""

    _fields_ = (
        ("input_norm", NormStruct),
        ("query_norm", NormStruct),
        ("key_norm", NormStruct),
        ("qkv", WeightsStruct),
    )


class KvLayerStruct(ctypes.Structure):
    """A `kv_cache.LayerCache` of fp16 or fp32."""

    _fields_ = (
        ("keys", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("kv_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("block_size", ctypes.c_int32),
        ("half", ctypes.c_int32),
    )


_POINTER, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int32, ctypes.c_float
_STRUCT = ctypes.POINTER
_SIGNATURES = {
    "project_and_store": (
        *(_POINTER, _INT, _STRUCT(ProjectionStruct), _POINTER, _POINTER),
        *(_STRUCT(KvLayerStruct), _POINTER, _POINTER, _POINTER),
    ),
    "attend": (
        *(_POINTER, _STRUCT(KvLayerStruct), _INT, _INT, _POINTER, _POINTER, _POINTER),
        *(_INT, _INT, _FLOAT, _POINTER),
    ),
    "add_product": (_POINTER, _POINTER, _INT, _STRUCT(WeightsStruct), _POINTER),
    "gate": (
        *(_POINTER, _INT, _STRUCT(NormStruct), _STRUCT(WeightsStruct), _STRUCT(WeightsStruct)),
        *(_POINTER, _POINTER),
    ),
    "head": (
        *(_POINTER, _POINTER, _INT, _STRUCT(NormStruct), _STRUCT(WeightsStruct)),
        *(_POINTER, _POINTER),
    ),
}


class CpuKernels:
    """The functions of a compiled library; pointers are the addresses of contiguous tensors.

    Raises:
        OSError: the library cannot be loaded.
    """

    def __init__(self, path: Path, target: str) -> None:
        self.target = target
        library = ctypes.CDLL(str(path))
        version = library.headrace_interface_version()
        if version != _INTERFACE_VERSION:
            raise OSError(f"{path} has interface version {version}, not {_INTERFACE_VERSION}")
        self.project_and_store = _function(library, "project_and_store")
        self.attend = _function(library, "attend")
        self.add_product = _function(library, "add_product")
        self.gate = _function(library, "gate")
        self.head = _function(library, "head")


def _function(library: ctypes.CDLL, name: str) -> Any:
    function = getattr(library, f"headrace_{name}")
    function.argtypes = _SIGNATURES[name]
    function.restype = None
    return function


@cache
def load_kernels() -> CpuKernels | None:
    """Return the kernels for this machine, building them where needed; None without them.

    torch must be loaded before, so that both share one pool of OpenMP threads.
    """
    target = choose_target()
    if target is None:
        return None
    try:
        return CpuKernels(build(target), target)
    except (KernelBuildError, OSError) as error:
        log_event(_log, logging.WARNING, "no CPU kernels, serving will be slower", why=str(error))
        return None
