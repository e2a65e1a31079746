"""Copies between host and device that do not wait for what the device is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a tensor of the host on a device, as soon as the device comes to it."""
    if device.type == "cuda":
        # Memory that is not pinned would be copied after everything that was begun before.
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


class Fetched:
    """A tensor on its way to the host."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._copied: torch.cuda.Event | None = None
        if tensor.device.type == "cuda":
            self._tensor = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._tensor.copy_(tensor, non_blocking=True)
            self._copied = torch.cuda.Event()  # type: ignore[no-untyped-call]  # as PyTorch has it
            self._copied.record()

    def wait(self) -> Sequence[Sequence[float]]:
        """Wait for what was begun before the copy, and return the rows of the tensor."""
        if self._copied is not None:
            self._copied.synchronize()
        rows: Sequence[Sequence[float]] = self._tensor.tolist()
        return rows
