"""Paged attention in plain torch: gather whole blocks, then one SDPA. Runs on every device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from headrace_server.models.attention.plan import AttentionPlan, DecodeGroup, PrefillTile
    from headrace_server.models.kv_cache import LayerCache


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a layer scores keys.

    Args:
        window: the window of the layer, one of those planned for.
        scale: factor of the products of queries and keys; None for 1 / sqrt(head_dim).
        softcap: scores are squeezed into ± this; None leaves them.
    """

    window: int | None = None
    scale: float | None = None
    softcap: float | None = None


def paged_attention(
    queries: torch.Tensor, layer_cache: LayerCache, plan: AttentionPlan, scoring: Scoring
) -> torch.Tensor:
    """Attend to the cached context of each token.

    Args:
        queries: [tokens, heads * head_dim].
        layer_cache: keys and values may be narrower than the queries.
        plan: the plan of the step.
        scoring: how the layer scores keys.

    Returns:
        [tokens, heads * head_dim].
    """
    parts = [_decode(queries, layer_cache, group, scoring) for group in plan.decode]
    parts += [_prefill(queries, layer_cache, tile, scoring) for tile in plan.prefill]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(
    queries: torch.Tensor, layer_cache: LayerCache, group: DecodeGroup, scoring: Scoring
) -> torch.Tensor:
    """Attend for rows of one token. The query heads that share a KV head form one product."""
    keys, values = _gather(layer_cache, group.block_table, group.num_rows, queries.dtype)
    num_kv_heads, head_dim = keys.shape[1], keys.shape[3]
    packed = queries[group.tokens].view(group.num_rows, num_kv_heads, -1, head_dim)
    attended = _attend(packed, keys, values, group.masks[scoring.window], scoring)
    return attended.reshape(group.num_rows, -1)


def _prefill(
    queries: torch.Tensor, layer_cache: LayerCache, tile: PrefillTile, scoring: Scoring
) -> torch.Tensor:
    keys, values = _gather(layer_cache, tile.block_table, 1, queries.dtype)
    tile_queries = queries[tile.tokens]
    num_tokens = len(tile_queries)
    if tile.num_padding_rows:
        tile_queries = functional.pad(tile_queries, (0, 0, 0, tile.num_padding_rows))
    heads = tile_queries.view(len(tile_queries), -1, keys.shape[3]).transpose(0, 1)[None]
    attended = _attend(heads, keys, values, tile.masks[scoring.window], scoring)
    return attended[0, :, :num_tokens].transpose(0, 1).flatten(1)


def _attend(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor,
    scoring: Scoring,
) -> torch.Tensor:
    """Attend for queries [rows, heads, tokens, head_dim] whose heads share those of the keys."""
    if scoring.softcap is None:
        return functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=mask,
            scale=scoring.scale,
            enable_gqa=queries.shape[1] != keys.shape[1],
        )
    num_sharing = queries.shape[1] // keys.shape[1]
    keys, values = (heads.repeat_interleave(num_sharing, dim=1) for heads in (keys, values))
    scale = queries.shape[3] ** -0.5 if scoring.scale is None else scoring.scale
    scores = queries @ keys.transpose(2, 3) * scale
    scores = (scores / scoring.softcap).tanh_().mul_(scoring.softcap) + mask
    return scores.softmax(dim=-1, dtype=torch.float32).to(values.dtype) @ values


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
