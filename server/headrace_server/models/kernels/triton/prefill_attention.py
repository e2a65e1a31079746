"""Attention of chunks of prompts over the paged cache, without a matrix of all scores.

A query meets the keys in tiles that begin at multiples of `_TILE_KEYS`, wherever its chunk
begins: its result does not depend on how its prompt was cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch

    from headrace_server.models.kv_cache import LayerCache

TILE_QUERIES = 64
"""The most queries of a tile."""

_TILE_KEYS = 64
_LOG2_E = 1.4426950408889634


@triton.jit(do_not_specialize=["query_stride", "table_stride"])
def _attend_tile_kernel(
    queries,
    query_stride,
    keys,
    values,
    tables,
    table_stride,
    tiles,
    out,
    scale,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
    PADDED_DIM: tl.constexpr,
):
    head = tl.program_id(0)
    kv_head = head // (HEADS // KV_HEADS)
    tile = tiles + tl.program_id(1) * 4
    row = tl.load(tile).to(tl.int64)
    first_token = tl.load(tile + 1).to(tl.int64)
    num_tokens = tl.load(tile + 2)
    start = tl.load(tile + 3)

    members = tl.arange(0, QUERIES)
    positions = start + members
    dims = tl.arange(0, PADDED_DIM)
    exists = (members < num_tokens)[:, None] & (dims < HEAD_DIM)[None, :]
    query_rows = (first_token + members)[:, None] * query_stride
    query_place = queries + query_rows + head * HEAD_DIM + dims[None, :]
    query = tl.load(query_place, mask=exists, other=0.0)
    largest = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    attended = tl.zeros([QUERIES, PADDED_DIM], tl.float32)

    end = start + num_tokens
    begin = 0
    if WINDOW > 0:
        begin = tl.maximum(start - WINDOW + 1, 0) // KEYS * KEYS
    for first_key in range(begin, end, KEYS):
        tokens = tl.multiple_of(first_key, KEYS) + tl.arange(0, KEYS)
        is_stored = tokens < end
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
        visible = tokens[None, :] <= positions[:, None]
        if WINDOW > 0:
            visible &= tokens[None, :] > positions[:, None] - WINDOW
        scores = tl.where(visible, scores, float("-inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        # Where nothing has been visible yet there is no largest score to subtract.
        base_score = tl.where(new_largest == float("-inf"), 0.0, new_largest)
        chances = tl.exp2(scores - base_score[:, None])
        shrink = tl.exp2(largest - base_score)
        total = total * shrink + tl.sum(chances, axis=1)
        value_place = values + base[:, None] + offsets[:, None] * HEAD_DIM + dims[None, :]
        value_mask = is_stored[:, None] & (dims < HEAD_DIM)[None, :]
        value = tl.load(value_place, mask=value_mask, other=0.0).to(query.dtype)
        product = tl.dot(chances.to(query.dtype), value, input_precision="tf32x3")
        attended = attended * shrink[:, None] + product
        largest = new_largest

    out_rows = (first_token + members)[:, None] * (HEADS * HEAD_DIM)
    # Queries that only fill the tile may have seen nothing; they are not stored.
    total = tl.where(total == 0.0, 1.0, total)
    out_place = out + out_rows + head * HEAD_DIM + dims[None, :]
    tl.store(out_place, attended / total[:, None], mask=exists)


def attend_prefill(
    queries: torch.Tensor,
    cache: LayerCache,
    tables: torch.Tensor,
    tiles: torch.Tensor,
    window: int | None,
    out: torch.Tensor,
) -> None:
    """Attend for the tokens of `tiles`, each to the tokens before it and itself.

    Args:
        queries: [tokens, at least heads * head_dim]; what lies behind the heads is not looked at.
        cache: of the layer, all tokens of the step included.
        tables: int32 [rows, blocks of a row], ids of the blocks.
        tiles: int32 [tiles, 4]: the row in `tables`, the first token in the step, the number of
            tokens, at most `TILE_QUERIES`, and the position of the first.
        window: how many tokens back are visible, the token included; None for all.
        out: [tokens, heads * head_dim], contiguous; filled for these tokens.
    """
    _, num_kv_heads, head_dim, block_size = cache.keys.shape
    num_heads = out.shape[1] // head_dim
    _attend_tile_kernel[(num_heads, len(tiles))](
        queries,
        queries.stride(0),
        cache.keys,
        cache.values,
        tables,
        tables.stride(0),
        tiles,
        out,
        head_dim**-0.5 * _LOG2_E,
        HEADS=num_heads,
        KV_HEADS=num_kv_heads,
        HEAD_DIM=head_dim,
        BLOCK_SIZE=block_size,
        WINDOW=window or 0,
        QUERIES=TILE_QUERIES,
        KEYS=_TILE_KEYS,
        PADDED_DIM=max(triton.next_power_of_2(head_dim), 16),
        num_warps=4 if head_dim <= 128 else 8,
        # Two tiles of keys and values at once are for where they fit the memory of most GPUs.
        num_stages=2 if head_dim * queries.element_size() <= 256 else 1,
    )
