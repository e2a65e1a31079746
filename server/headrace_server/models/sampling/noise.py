"""Gumbel noise as a pure function of a seed, a position and a token.

The same arguments give the same noise in every batch, process and step, so that an
answer with a seed can be repeated and resumed.

Gumbel noise is -log of an exponential waiting time. The times of a block of tokens are made from
the block down: the first of 64 comes after an exponential time with a 64th of the mean, each of
them is as likely to be it, and the others follow after an exponential time, for such times have
no memory. So the largest noise of a block is known without looking at its tokens.
"""

from __future__ import annotations

import torch

BLOCK_SIZE = 64

# Tensors, for with a number of Python an operation takes twice as long on few elements.
_PLACE_BITS = torch.tensor(6, dtype=torch.int32)
_PLACE = torch.tensor(BLOCK_SIZE - 1, dtype=torch.int32)
_POSITIVE = torch.tensor(0x7FFFFFFF, dtype=torch.int32)
_UNIT = torch.tensor(-(2.0**-31))
_SHIFT_16 = torch.tensor(16, dtype=torch.int32)
_SHIFT_15 = torch.tensor(15, dtype=torch.int32)
_LOW_16 = torch.tensor(0xFFFF, dtype=torch.int32)
_LOW_17 = torch.tensor(0x1FFFF, dtype=torch.int32)
_FACTOR_1 = torch.tensor(0x21F0AAAD, dtype=torch.int32)
_FACTOR_2 = torch.tensor(0xD35A2D97 - (1 << 32), dtype=torch.int32)

_MASK_64 = (1 << 64) - 1
_GOLDEN_64 = 0x9E3779B97F4A7C15


def noise_keys(seed: int, position: int) -> tuple[int, int]:
    """Mix a signed 64-bit seed and a position into two signed 32-bit keys, the second odd."""
    mixed = _split_mix((_split_mix(seed & _MASK_64) + position * _GOLDEN_64) & _MASK_64)
    return _signed_32(mixed & 0xFFFFFFFF), _signed_32(mixed >> 32 | 1)


def gumbel(keys: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Return the noise of tokens, float32 [rows, tokens], between -2.9 and 26.4.

    Args:
        keys: int32 [rows, 2] of `noise_keys`.
        token_ids: int32 [rows, tokens] or [1, tokens].
    """
    times, places = first_times(keys, token_ids >> _PLACE_BITS)
    others = (token_ids & _PLACE) != places
    return delays(keys, token_ids).mul_(others).add_(times).log_().neg_()


def first_times(keys: torch.Tensor, block_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the time of the first token of each block, and where in the block it stands.

    Args:
        keys: int32 [rows, 2] of `noise_keys`.
        block_ids: int32 [rows, blocks] or [1, blocks].

    Returns:
        Times float32 and places int32, [rows, blocks].
    """
    bits = _hash(keys, ~block_ids)  # no token has such an id
    # The lowest bits serve twice: they are far below what matters of a time.
    places = bits & _PLACE
    return _exponential_(bits).mul_(1 / BLOCK_SIZE), places


def delays(keys: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """Return how long after the first of its block each token comes, if it is not the first.

    Args:
        keys: int32 [rows, 2] of `noise_keys`.
        token_ids: int32 [rows, tokens] or [rows, blocks, tokens].

    Returns:
        Times float32, as `token_ids`.
    """
    return _exponential_(_hash(keys, token_ids))


def _exponential_(bits: torch.Tensor) -> torch.Tensor:
    """Make exponential variates of mean 1 from 31 bits, finest near 0."""
    negative = bits.bitwise_and_(_POSITIVE).float().mul_(_UNIT)
    return negative.clamp_(min=-1 + 2.0**-24, max=-(2.0**-32)).log1p_().neg_()


def _hash(keys: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Hash int32 of each row with the keys of the row."""
    low, odd = keys.view(-1, 2, *(1,) * (numbers.dim() - 1)).unbind(1)
    bits = (numbers ^ low).mul_(odd)
    # lowbias32 of Chris Wellons spreads every bit over all; products wrap.
    bits ^= (bits >> _SHIFT_16).bitwise_and_(_LOW_16)
    bits *= _FACTOR_1
    bits ^= (bits >> _SHIFT_15).bitwise_and_(_LOW_17)
    bits *= _FACTOR_2
    bits ^= (bits >> _SHIFT_15).bitwise_and_(_LOW_17)
    return bits


def _split_mix(value: int) -> int:
    """One step of SplitMix64."""
    value = (value + _GOLDEN_64) & _MASK_64
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK_64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK_64
    return value ^ (value >> 31)


def _signed_32(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
