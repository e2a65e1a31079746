"""Attention of rows of one token over the paged cache, in splits of the context.

One program attends for all query heads of a KV head, so that every key and value is read once. A
context is cut into at most `NUM_SPLITS` splits, by its own length and nothing else: a row's
result does not depend on the batch, and a launch does not depend on the lengths, so that it can
be recorded in a graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from headrace_server.models.kv_cache import LayerCache

NUM_SPLITS = 16
"""With 8 KV heads, which most models have, one row alone occupies most of a large GPU."""

_MIN_SPLIT_TOKENS = 128
_TILE_TOKENS = 64
_LOG2_E = 1.4426950408889634


@triton.jit
def _split_bounds(
    length,
    WINDOW: tl.constexpr,
    SPLITS: tl.constexpr,
    MIN_SPLIT_TOKENS: tl.constexpr,
    TILE: tl.constexpr,
):
    """Return the first visible token, where the first split begins, and the tokens of a split."""
    first = 0
    if WINDOW > 0:
        first = tl.maximum(length - WINDOW, 0)
    begin = first // TILE * TILE
    share = tl.cdiv(tl.cdiv(length - begin, SPLITS), TILE) * TILE
    return first, begin, tl.maximum(share, MIN_SPLIT_TOKENS)


@triton.jit(do_not_specialize=["query_stride", "table_stride"])
def _attend_split_kernel(
    queries,
    query_stride,
    keys,
    values,
    tables,
    table_stride,
    lengths,
    partials,
    weights,
    scale,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    SPLITS: tl.constexpr,
    MIN_SPLIT_TOKENS: tl.constexpr,
    TILE: tl.constexpr,
    PADDED_GROUP: tl.constexpr,
    PADDED_DIM: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    length = tl.load(lengths + row)
    first, begin, split_tokens = _split_bounds(length, WINDOW, SPLITS, MIN_SPLIT_TOKENS, TILE)
    begin += split * split_tokens
    if begin >= length:
        return
    end = tl.minimum(begin + split_tokens, length)

    members = tl.arange(0, PADDED_GROUP)
    heads = kv_head * GROUP + members
    dims = tl.arange(0, PADDED_DIM)
    head_exists = (members < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    query_place = queries + row * query_stride + heads[:, None] * HEAD_DIM + dims[None, :]
    query = tl.load(query_place, mask=head_exists, other=0.0)
    largest = tl.full([PADDED_GROUP], float("-inf"), tl.float32)
    total = tl.zeros([PADDED_GROUP], tl.float32)
    attended = tl.zeros([PADDED_GROUP, PADDED_DIM], tl.float32)

    for start in range(begin, end, TILE):
        tokens = tl.multiple_of(start, TILE) + tl.arange(0, TILE)
        visible = (tokens >= first) & (tokens < end)
        indices = tokens // BLOCK_SIZE
        table = tables + row * table_stride + indices
        blocks = tl.load(table, mask=indices <= (end - 1) // BLOCK_SIZE, other=0).to(tl.int64)
        base = (blocks * KV_HEADS + kv_head) * (HEAD_DIM * BLOCK_SIZE)
        offsets = tokens % BLOCK_SIZE
        key_place = keys + base[None, :] + dims[:, None] * BLOCK_SIZE + offsets[None, :]
        # What an earlier owner left behind `end` may be NaN: its scores are hidden below. Without a
        # mask over tokens, which cut anywhere, many are loaded at once.
        key = tl.load(key_place, mask=(dims < HEAD_DIM)[:, None], other=0.0)
        scores = tl.dot(query, key.to(query.dtype), input_precision="tf32x3") * scale
        scores = tl.where(visible[None, :], scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        chances = tl.exp2(scores - new_largest[:, None])
        shrink = tl.exp2(largest - new_largest)
        total = total * shrink + tl.sum(chances, axis=1)
        value_place = values + base[:, None] + offsets[:, None] * HEAD_DIM + dims[None, :]
        value_mask = visible[:, None] & (dims < HEAD_DIM)[None, :]
        value = tl.load(value_place, mask=value_mask, other=0.0).to(query.dtype)
        product = tl.dot(chances.to(query.dtype), value, input_precision="tf32x3")
        attended = attended * shrink[:, None] + product
        largest = new_largest

    place = (row * (KV_HEADS * GROUP) + heads) * SPLITS + split
    partial_place = partials + place[:, None] * HEAD_DIM + dims[None, :]
    tl.store(partial_place, attended / total[:, None], mask=head_exists)
    tl.store(weights + place, largest + tl.log2(total), mask=members < GROUP)


@triton.jit
def _combine_kernel(
    partials,
    weights,
    lengths,
    out,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    WINDOW: tl.constexpr,
    SPLITS: tl.constexpr,
    MIN_SPLIT_TOKENS: tl.constexpr,
    TILE: tl.constexpr,
    PADDED_DIM: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    length = tl.load(lengths + row)
    _, begin, split_tokens = _split_bounds(length, WINDOW, SPLITS, MIN_SPLIT_TOKENS, TILE)
    splits = tl.arange(0, SPLITS)
    is_computed = begin + splits * split_tokens < length
    place = (row * HEADS + head) * SPLITS + splits
    weight = tl.load(weights + place, mask=is_computed, other=float("-inf"))
    # A row of no context, which pads the batch of a graph, gives zeros.
    largest = tl.where(length > 0, tl.max(weight, axis=0), 0.0)
    shares = tl.exp2(weight - largest)
    total = tl.maximum(tl.sum(shares, axis=0), 1e-30)
    dims = tl.arange(0, PADDED_DIM)
    partial_place = partials + place[:, None] * HEAD_DIM + dims[None, :]
    partial_mask = is_computed[:, None] & (dims < HEAD_DIM)[None, :]
    partial = tl.load(partial_place, mask=partial_mask, other=0.0)
    attended = tl.sum(partial * shares[:, None], axis=0) / total
    tl.store(out + (row * HEADS + head) * HEAD_DIM + dims, attended, mask=dims < HEAD_DIM)


def attend_decode(
    queries: torch.Tensor,
    cache: LayerCache,
    tables: torch.Tensor,
    lengths: torch.Tensor,
    window: int | None,
    out: torch.Tensor,
) -> None:
    """Attend for the first `len(lengths)` tokens of a step, each the newest of its row.

    Args:
        queries: [tokens, at least heads * head_dim]; what lies behind the heads is not looked at.
        cache: of the layer, the tokens themselves included.
        tables: int32 [rows, blocks of a row], ids of the blocks.
        lengths: int32 [decode rows], tokens in the context of each; 0 gives zeros.
        window: how many tokens back are visible, the token included; None for all.
        out: [tokens, heads * head_dim], contiguous; filled for these tokens.
    """
    _, num_kv_heads, head_dim, block_size = cache.keys.shape
    num_heads = out.shape[1] // head_dim
    num_rows = len(lengths)
    weights = torch.empty((num_rows, num_heads, NUM_SPLITS), dtype=torch.float32, device=out.device)
    partials = torch.empty((*weights.shape, head_dim), dtype=torch.float32, device=out.device)
    split = {
        "HEAD_DIM": head_dim,
        "WINDOW": window or 0,
        "SPLITS": NUM_SPLITS,
        "MIN_SPLIT_TOKENS": _MIN_SPLIT_TOKENS,
        "TILE": _TILE_TOKENS,
        "PADDED_DIM": max(triton.next_power_of_2(head_dim), 16),
    }
    group = num_heads // num_kv_heads
    _attend_split_kernel[(num_rows, num_kv_heads, NUM_SPLITS)](
        queries,
        queries.stride(0),
        cache.keys,
        cache.values,
        tables,
        tables.stride(0),
        lengths,
        partials,
        weights,
        head_dim**-0.5 * _LOG2_E,
        KV_HEADS=num_kv_heads,
        GROUP=group,
        BLOCK_SIZE=block_size,
        PADDED_GROUP=max(triton.next_power_of_2(group), 16),
        num_warps=4,
        # Two tiles of keys and values at once are for where they fit the memory of most GPUs.
        num_stages=2 if head_dim * queries.element_size() <= 256 else 1,
        **split,
    )
    _combine_kernel[(num_rows, num_heads)](
        partials, weights, lengths, out, HEADS=num_heads, num_warps=4, **split
    )
