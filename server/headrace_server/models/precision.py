"""Where and in which number formats a model computes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.kernels.library import CpuKernels, load_kernels

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class WeightFormat(Enum):
    """How matrices are kept. All but `DENSE` are for CPUs, under fp32 activations.

    `FBGEMM_FP16` is what FBGEMM packs, for CPUs without kernels; the rest is packed for them.
    """

    DENSE = "none"
    FBGEMM_FP16 = "fbgemm"
    FP16 = "fp16"
    INT8 = "int8"
    INT4 = "q4"


@dataclass(frozen=True, slots=True)
class Precision:
    """The device and the formats.

    Args:
        activations: the format of the hidden state.
        kv: the format of the KV cache.
        kernels: that compute the steps; None for plain torch.
    """

    device: torch.device
    activations: torch.dtype
    kv: torch.dtype
    weights: WeightFormat
    kernels: CpuKernels | None = None


def choose_precision(
    device: str, dtype: str, quantization: str, *, kernels_fit: bool = True
) -> Precision:
    """Resolve the device and ``auto`` to what this machine computes best.

    Args:
        device: see `EngineSettings`.
        dtype: see `EngineSettings`.
        quantization: see `EngineSettings`.
        kernels_fit: whether the compiled kernels can compute the model.

    Raises:
        ModelLoadError: no such device or format.
    """
    if dtype != "auto" and dtype not in _DTYPES:
        raise ModelLoadError(f"The dtype {dtype!r} is unknown; choose auto, {', '.join(_DTYPES)}.")
    resolved = _device(device)
    if quantization == "auto":
        quantization = "fp16" if resolved.type == "cpu" and dtype == "auto" else "none"
    if quantization == "none":
        default = torch.float32 if resolved.type == "cpu" else torch.bfloat16
        activations = _DTYPES.get(dtype, default)
        return Precision(resolved, activations, activations, WeightFormat.DENSE)
    if resolved.type != "cpu":
        raise ModelLoadError(
            f"Weights as {quantization} are for CPUs; leave --quantization out on {resolved.type}."
        )
    if dtype not in ("auto", "float32"):
        raise ModelLoadError(
            f"Weights as {quantization} are multiplied in float32; leave --dtype {dtype} out."
        )
    return _quantized(resolved, WeightFormat(quantization), kernels_fit=kernels_fit)


def _quantized(device: torch.device, weights: WeightFormat, *, kernels_fit: bool) -> Precision:
    kernels = load_kernels() if kernels_fit else None
    if kernels is not None:
        return Precision(device, torch.float32, torch.float16, weights, kernels)
    if weights is not WeightFormat.FP16:
        why = (
            "a C++ compiler, such as the package g++, and an x86 CPU with AVX2 or an ARM CPU"
            if kernels_fit
            else "a model whose layers are multiples of 32 wide and --block-size a multiple of 8"
        )
        raise ModelLoadError(f"Weights as {weights.value} need {why}; leave --quantization out.")
    # FBGEMM's fp16 weights halve the bytes that a step reads and are ahead of MKL's fp32 at
    # every number of rows from 1 to 512 (AVX2 and AVX-512).
    has_fbgemm = "fbgemm" in torch.backends.quantized.supported_engines
    dense = WeightFormat.FBGEMM_FP16 if has_fbgemm else WeightFormat.DENSE
    return Precision(device, torch.float32, torch.float32, dense)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ModelLoadError(
            f"The device {name!r} cannot be used on this machine; choose auto, cpu, cuda or cuda:N."
        ) from error
    if device.type == "meta":
        raise ModelLoadError("The device 'meta' cannot compute; choose auto, cpu or cuda.")
    return device
