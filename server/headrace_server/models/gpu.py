"""Whether the kernels for GPUs can be used; tells so without importing them."""

from __future__ import annotations

from importlib.util import find_spec

import torch

# Triton compiles for these and newer ones, and they compute in bfloat16 (Ampere, 2020).
_LEAST_CAPABILITY = (8, 0)
_MAX_HEAD_DIM = 256


def has_gpu_kernels(device: torch.device, head_dim: int) -> bool:
    """Whether steps of a model with heads of this size are computed by Triton on `device`."""
    return (
        device.type == "cuda"
        and torch.version.hip is None
        and head_dim <= _MAX_HEAD_DIM
        and torch.cuda.get_device_capability(device) >= _LEAST_CAPABILITY
        and find_spec("triton") is not None
    )
