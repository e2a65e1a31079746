"""Where and in which number format a model computes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from headrace_server.engine.model_runner import ModelLoadError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class Precision:
    """The device, the format of activations and KV, and how weights are kept.

    Args:
        packed_fp16_weights: weights are packed fp16 under fp32 activations; otherwise
            they have the format of the activations.
    """

    device: torch.device
    activations: torch.dtype
    packed_fp16_weights: bool


def choose_precision(device: str, dtype: str) -> Precision:
    """Resolve the device and ``auto`` to what this machine computes best.

    Raises:
        ModelLoadError: no such device or format.
    """
    if dtype != "auto" and dtype not in _DTYPES:
        raise ModelLoadError(f"The dtype {dtype!r} is unknown; choose auto, {', '.join(_DTYPES)}.")
    resolved = _device(device)
    if dtype != "auto":
        return Precision(resolved, _DTYPES[dtype], packed_fp16_weights=False)
    if resolved.type != "cpu":
        return Precision(resolved, torch.bfloat16, packed_fp16_weights=False)
    # FBGEMM's fp16 weights halve the bytes that a step reads and were ahead of MKL's fp32 at
    # every number of rows from 1 to 512 (AVX2 and AVX-512). Each row's result is the same to the
    # bit whatever stands beside it, which MKL does not give below four rows.
    return Precision(
        resolved,
        torch.float32,
        packed_fp16_weights="fbgemm" in torch.backends.quantized.supported_engines,
    )


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
