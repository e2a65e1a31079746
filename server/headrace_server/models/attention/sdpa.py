"""Paged attention in plain torch: gather whole blocks, then one SDPA. Runs on every device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from headrace_server.models.attention.plan import AttentionPlan, DecodeGroup, PrefillTile
    from headrace_server.models.kv_cache import LayerCache


def paged_attention(
    queries: torch.Tensor, layer_cache: LayerCache, plan: AttentionPlan, window: int | None
) -> torch.Tensor:
    """Attend to the cached context of each token.

    Args:
        queries: [tokens, heads * head_dim].
        layer_cache: keys and values may be narrower than the queries.
        plan: the plan of the step.
        window: the window of the layer, one of those planned for.

    Returns:
        [tokens, heads * head_dim].
    """
    parts = [_decode(queries, layer_cache, group, window) for group in plan.decode]
    parts += [_prefill(queries, layer_cache, tile, window) for tile in plan.prefill]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(
    queries: torch.Tensor, layer_cache: LayerCache, group: DecodeGroup, window: int | None
) -> torch.Tensor:
    """Attend for rows of one token. The query heads that share a KV head form one product."""
    keys, values = _gather(layer_cache, group.block_table, group.num_rows, queries.dtype)
    num_kv_heads, head_dim = keys.shape[1], keys.shape[3]
    packed = queries[group.tokens].view(group.num_rows, num_kv_heads, -1, head_dim)
    attended = functional.scaled_dot_product_attention(
        packed, keys, values, attn_mask=group.masks[window]
    )
    return attended.reshape(group.num_rows, -1)


def _prefill(
    queries: torch.Tensor, layer_cache: LayerCache, tile: PrefillTile, window: int | None
) -> torch.Tensor:
    keys, values = _gather(layer_cache, tile.block_table, 1, queries.dtype)
    tile_queries = queries[tile.tokens]
    num_tokens = len(tile_queries)
    if tile.num_padding_rows:
        tile_queries = functional.pad(tile_queries, (0, 0, 0, tile.num_padding_rows))
    heads = tile_queries.view(len(tile_queries), -1, keys.shape[3]).transpose(0, 1)[None]
    attended = functional.scaled_dot_product_attention(
        heads, keys, values, attn_mask=tile.masks[window], enable_gqa=True
    )
    return attended[0, :, :num_tokens].transpose(0, 1).flatten(1)


def _gather(
    layer_cache: LayerCache, block_table: torch.Tensor, num_rows: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return keys and values [rows, kv_heads, tokens, head_dim] of the blocks of each row."""
    keys = layer_cache.keys.index_select(0, block_table).transpose(2, 3)
    values = layer_cache.values.index_select(0, block_table)
    return _join_blocks(keys, num_rows, dtype), _join_blocks(values, num_rows, dtype)


def _join_blocks(blocks: torch.Tensor, num_rows: int, dtype: torch.dtype) -> torch.Tensor:
    """Turn [rows * blocks, kv_heads, block_size, head_dim] into one context per row."""
    by_row = blocks.reshape(num_rows, -1, *blocks.shape[1:]).transpose(1, 2)
    return by_row.flatten(2, 3).to(dtype)
