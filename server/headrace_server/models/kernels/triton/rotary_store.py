"""What follows the projection: norms of heads, the rotation, and the store into the KV cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from headrace_server.models.decoder import Norm
    from headrace_server.models.kv_cache import LayerCache

_HEADS_PER_PROGRAM = 8


@triton.jit
def _rotate_and_store_kernel(
    projected,
    positions,
    slots,
    turns,
    query_weight,
    key_weight,
    epsilon,
    keys,
    values,
    QUERY_HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    HAS_NORMS: tl.constexpr,
    IS_ROTATED: tl.constexpr,
    HEADS: tl.constexpr,
    PADDED_PAIRS: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    heads = (tl.program_id(1) * HEADS + tl.arange(0, HEADS))[:, None]
    pairs = tl.arange(0, PADDED_PAIRS)[None, :]
    exists = pairs < HEAD_DIM // 2
    inside = exists & (heads < QUERY_HEADS + 2 * KV_HEADS)
    is_query = heads < QUERY_HEADS
    is_value = heads >= QUERY_HEADS + KV_HEADS

    row = projected + token * ((QUERY_HEADS + 2 * KV_HEADS) * HEAD_DIM)
    place = row + heads * HEAD_DIM + 2 * pairs
    even = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    odd = tl.load(place + 1, mask=inside, other=0.0).to(tl.float32)
    if HAS_NORMS:
        mean_square = tl.sum(even * even + odd * odd, axis=1) / HEAD_DIM
        factor = tl.rsqrt(mean_square + epsilon)[:, None]
        query_even = tl.load(query_weight + 2 * pairs, mask=exists, other=0.0).to(tl.float32)
        query_odd = tl.load(query_weight + 2 * pairs + 1, mask=exists, other=0.0).to(tl.float32)
        key_even = tl.load(key_weight + 2 * pairs, mask=exists, other=0.0).to(tl.float32)
        key_odd = tl.load(key_weight + 2 * pairs + 1, mask=exists, other=0.0).to(tl.float32)
        normed_even = even * factor * tl.where(is_query, query_even, key_even)
        normed_odd = odd * factor * tl.where(is_query, query_odd, key_odd)
        even = tl.where(is_value, even, normed_even)
        odd = tl.where(is_value, odd, normed_odd)
    if IS_ROTATED:
        turn = turns + tl.load(positions + token) * HEAD_DIM + 2 * pairs
        cosine = tl.load(turn, mask=exists, other=0.0)
        sine = tl.load(turn + 1, mask=exists, other=0.0)
        turned_even = even * cosine - odd * sine
        turned_odd = even * sine + odd * cosine
        even = tl.where(is_value, even, turned_even)
        odd = tl.where(is_value, odd, turned_odd)
    tl.store(place, even, mask=inside & is_query)
    tl.store(place + 1, odd, mask=inside & is_query)

    slot = tl.load(slots + token)
    is_stored = inside & (
        slot + 0 * heads >= 0
    )  # the interpreter takes no masks of one bit for all
    block = slot // BLOCK_SIZE
    offset = slot % BLOCK_SIZE
    is_key = is_stored & (heads >= QUERY_HEADS) & (heads < QUERY_HEADS + KV_HEADS)
    key_row = block * KV_HEADS + heads - QUERY_HEADS
    key_place = keys + (key_row * HEAD_DIM + 2 * pairs) * BLOCK_SIZE + offset
    tl.store(key_place, even, mask=is_key)
    tl.store(key_place + BLOCK_SIZE, odd, mask=is_key)
    value_row = block * KV_HEADS + heads - QUERY_HEADS - KV_HEADS
    value_place = values + (value_row * BLOCK_SIZE + offset) * HEAD_DIM + 2 * pairs
    tl.store(value_place, even, mask=is_stored & is_value)
    tl.store(value_place + 1, odd, mask=is_stored & is_value)


def rotate_and_store(
    projected: torch.Tensor,
    positions: torch.Tensor,
    slots: torch.Tensor,
    turns: torch.Tensor | None,
    norms: tuple[Norm, Norm] | None,
    cache: LayerCache,
) -> None:
    """Normalise and rotate queries and keys, the queries in place, and store keys and values.

    Args:
        projected: [tokens, (query heads + 2 * KV heads) * head_dim], contiguous; the queries in it
            are overwritten.
        positions: int64 [tokens].
        slots: int64 [tokens], see `StepInputs`; a token of a negative slot is not stored.
        turns: float32 [context, head_dim], cosine and sine of each pair in turn; None does not
            rotate.
        norms: of the heads of queries and keys.
        cache: of the layer.
    """
    _, num_kv_heads, head_dim, block_size = cache.keys.shape
    num_heads = projected.shape[1] // head_dim
    query_norm, key_norm = norms or (None, None)
    _rotate_and_store_kernel[(len(projected), triton.cdiv(num_heads, _HEADS_PER_PROGRAM))](
        projected,
        positions,
        slots,
        projected if turns is None else turns,
        projected if query_norm is None else query_norm.weight,
        projected if key_norm is None else key_norm.weight,
        0.0 if query_norm is None else query_norm.epsilon,
        cache.keys,
        cache.values,
        QUERY_HEADS=num_heads - 2 * num_kv_heads,
        KV_HEADS=num_kv_heads,
        HEAD_DIM=head_dim,
        BLOCK_SIZE=block_size,
        HAS_NORMS=norms is not None,
        IS_ROTATED=turns is not None,
        HEADS=_HEADS_PER_PROGRAM,
        PADDED_PAIRS=triton.next_power_of_2(head_dim // 2),
        num_warps=4,
    )
