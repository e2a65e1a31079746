"""How a step's room for prompts is shared among them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def share_budget(num_uncomputed: Sequence[int], budget: int) -> list[int]:
    """Share `budget` tokens among prompts: the shortest rest first.

    One prompt is finished rather than many advanced, so that the mean wait for a first token is
    short; but the first prompt is sure of half, so that a long one is not overtaken for ever.

    Args:
        num_uncomputed: what is left of each prompt, in the order of their turns.
        budget: at least 0.

    Returns:
        The number of tokens for each prompt.
    """
    shares = [0] * len(num_uncomputed)
    if not shares:
        return shares
    shares[0] = min(num_uncomputed[0], budget - budget // 2)
    num_left = budget - shares[0]
    # Sorting is stable: of equal ones the first goes first.
    for index in sorted(range(len(shares)), key=num_uncomputed.__getitem__):
        num_more = min(num_uncomputed[index] - shares[index], num_left)
        shares[index] += num_more
        num_left -= num_more
    return shares


def align_chunk(start: int, num_tokens: int, num_uncomputed: int, block_size: int) -> int:
    """Let a chunk end with a block where the prompt takes no more steps for it.

    Args:
        start: tokens before the chunk.
        num_tokens: the largest chunk.
        num_uncomputed: tokens of the prompt from `start` on.
        block_size: tokens in a KV block.

    Returns:
        The number of tokens of the chunk.
    """
    aligned = num_tokens - (start + num_tokens) % block_size
    if num_tokens == num_uncomputed or aligned <= 0:
        return num_tokens
    num_steps = -(-num_uncomputed // num_tokens)
    num_aligned_steps = 1 - (aligned - num_uncomputed) // num_tokens
    return aligned if num_aligned_steps <= num_steps else num_tokens
