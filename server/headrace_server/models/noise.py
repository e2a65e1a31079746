"""Gumbel noise as a pure function of a seed, a position and a token.

The same arguments give the same noise in every batch, process and step, so that an
answer with a seed can be repeated and resumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_MASK_64 = (1 << 64) - 1
_GOLDEN_64 = 0x9E3779B97F4A7C15


def noise_keys(seed: int, position: int) -> tuple[int, int]:
    """Mix a signed 64-bit seed and a position into two signed 32-bit keys."""
    mixed = _split_mix((_split_mix(seed & _MASK_64) + position * _GOLDEN_64) & _MASK_64)
    return _signed_32(mixed & 0xFFFFFFFF), _signed_32(mixed >> 32)


def gumbel(keys: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Return Gumbel noise float32 [rows, tokens], between -2.9 and 22.2.

    Args:
        keys: int32 [rows, 2] of `noise_keys`.
        token_ids: int32 [tokens] or [rows, tokens].
    """
    low, high = keys[:, :1], keys[:, 1:]
    bits = _mix(token_ids ^ low)
    bits = _mix(bits.add_(high))
    # 31 bits, so that the exponential below is finest near 0, where the largest noise is made.
    uniform = bits.bitwise_and_(0x7FFFFFFF).float().add_(0.5).mul_(2.0**-31)
    exponential = uniform.clamp_(max=1 - 2.0**-24).neg_().log1p_().neg_()
    return exponential.log_().neg_()


def _mix(bits: torch.Tensor) -> torch.Tensor:
    """Spread every bit of int32 over all (lowbias32 of Chris Wellons); products wrap."""
    bits = bits ^ ((bits >> 16) & 0xFFFF)
    bits = bits * 0x21F0AAAD
    bits = bits ^ ((bits >> 15) & 0x1FFFF)
    bits = bits * _signed_32(0xD35A2D97)
    return bits ^ ((bits >> 15) & 0x1FFFF)


def _split_mix(value: int) -> int:
    """One step of SplitMix64."""
    value = (value + _GOLDEN_64) & _MASK_64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)


def _signed_32(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
