"""Rotary position embedding: the table of rotations for every position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from headrace_server.models.config import DecoderConfig, RopeConfig


def rotation_table(
    config: DecoderConfig, context_length: int, device: torch.device
) -> torch.Tensor:
    """Return the complex rotations [context_length, head_dim / 2], complex64.

    Computed in float32 as in transformers, so that results agree at every position.
    """
    frequencies, magnitude = _frequencies(config.rope, config.rotary_dim)
    positions = torch.arange(context_length, dtype=torch.float32)
    angles = positions[:, None] * frequencies
    table = torch.complex(angles.cos() * magnitude, angles.sin() * magnitude)
    still = torch.ones(context_length, (config.head_dim - config.rotary_dim) // 2)
    return torch.cat((table, still), dim=1).to(device)


def interleave(weight: torch.Tensor, head_dim: int, rotary_dim: int) -> torch.Tensor:
    """Reorder rows so that the two numbers that rotate together lie side by side.

    Checkpoints keep them half of what is rotated apart. The products of queries and keys do not
    change when both are reordered, and a rotation becomes one complex product.

    Args:
        weight: [heads * head_dim, …], rows of a query or key projection.
        head_dim: size of a head.
        rotary_dim: how many of its first numbers are rotated.
    """
    heads = weight.reshape(-1, head_dim, *weight.shape[1:])
    halves = heads[:, :rotary_dim].reshape(-1, 2, rotary_dim // 2, *weight.shape[1:])
    pairs = halves.transpose(1, 2).flatten(1, 2)
    return torch.cat((pairs, heads[:, rotary_dim:]), dim=1).flatten(0, 1)


def rotate_(vectors: torch.Tensor, rotations: torch.Tensor) -> None:
    """Rotate queries or keys [tokens, heads, head_dim] in place.

    Args:
        vectors: of interleaved pairs.
        rotations: complex64 [tokens, 1, head_dim / 2].
    """
    pairs = vectors.view(*vectors.shape[:-1], -1, 2)
    if vectors.dtype == torch.float32:
        torch.view_as_complex(pairs).mul_(rotations)
    else:
        rotated = torch.view_as_complex(pairs.float()).mul_(rotations)
        pairs.copy_(torch.view_as_real(rotated))


def _frequencies(rope: RopeConfig, rotary_dim: int) -> tuple[torch.Tensor, float]:
    """Return the frequencies [rotary_dim / 2] and the factor on the rotated vectors."""
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim
    base = 1.0 / (rope.theta**exponents)
    if rope.type == "linear":
        return base / rope.scaling["factor"], 1.0
    if rope.type == "llama3":
        return _llama3(base, rope), 1.0
    if rope.type == "yarn":
        return _yarn(base, rope, rotary_dim)
    return base, 1.0


def _llama3(base: torch.Tensor, rope: RopeConfig) -> torch.Tensor:
    """Stretch long wavelengths by `factor`, keep short ones, blend between (Llama 3.1)."""
    factor: float = rope.scaling["factor"]
    low: float = rope.scaling["low_freq_factor"]
    high: float = rope.scaling["high_freq_factor"]
    turns = rope.original_context_length * base / (2 * math.pi)
    keep = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return (1 - keep) * base / factor + keep * base


def _yarn(base: torch.Tensor, rope: RopeConfig, rotary_dim: int) -> tuple[torch.Tensor, float]:
    """Blend by number of turns and sharpen attention (YaRN, arXiv 2309.00071)."""
    factor: float = rope.scaling["factor"]

    def dimension_of(num_turns: float) -> float:
        wavelength = rope.original_context_length / (num_turns * 2 * math.pi)
        return rotary_dim * math.log(wavelength) / (2 * math.log(rope.theta))

    low = dimension_of(float(rope.scaling.get("beta_fast") or 32))
    high = dimension_of(float(rope.scaling.get("beta_slow") or 1))
    if rope.scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    span = high - low if high != low else 0.001
    stretch = ((torch.arange(rotary_dim // 2, dtype=torch.float32) - low) / span).clamp(0.0, 1.0)
    return base / factor * stretch + base * (1 - stretch), _yarn_magnitude(rope, factor)


def _yarn_magnitude(rope: RopeConfig, factor: float) -> float:
    if rope.scaling.get("attention_factor") is not None:
        return float(rope.scaling["attention_factor"])

    def magnitude(scale: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

    mscale, mscale_all = rope.scaling.get("mscale"), rope.scaling.get("mscale_all_dim")
    if mscale and mscale_all:
        return magnitude(float(mscale)) / magnitude(float(mscale_all))
    return magnitude(1.0)
