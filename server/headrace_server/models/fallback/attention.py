"""The attention that transformers' models are given: it calls what is bound for the forward."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformers import AttentionInterface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import torch

PAGED = "headrace_paged"
"""The name of the attention in steps; transformers makes no masks for it."""

TRIAL = "headrace_trial"
"""The name of the attention in a trial; see `fallback.trial`."""


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """What a layer asks of attention.

    Args:
        layer_index: the layer's number in the KV cache; None where the layer does not tell.
        queries: [tokens, heads, head_dim].
        keys: [tokens, kv_heads, head_dim].
        values: the same.
        mask: what was made as the layer's mask.
        scale: factor of the products of queries and keys; None for 1 / sqrt(head_dim).
        softcap: scores are squeezed into ± this; None leaves them.
        others: what else the layer passes on.
    """

    layer_index: int | None
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    mask: Any
    scale: float | None
    softcap: float | None
    others: Mapping[str, Any]


# Not every model passes unknown arguments on to its layers, so this is not one of them.
_bound: ContextVar[Callable[[AttentionCall], torch.Tensor]] = ContextVar("attention")


def register() -> None:
    """Make the names known to transformers; once is enough, more does no harm."""
    for name in (PAGED, TRIAL):
        AttentionInterface.register(name, _attention)


@contextmanager
def attention_by(attend: Callable[[AttentionCall], torch.Tensor]) -> Iterator[None]:
    """Lead the attention of all forwards inside to `attend`, which returns the shape of queries."""
    token = _bound.set(attend)
    try:
        yield
    finally:
        _bound.reset(token)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Any,
    scaling: float | None = None,
    softcap: float | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Answer as transformers' attention functions do, for a batch of one.

    Returns:
        [1, tokens, heads, head_dim], and no weights.
    """
    queries, keys, values = (part[0].transpose(0, 1) for part in (query, key, value))
    call = AttentionCall(
        layer_index=getattr(module, "layer_idx", None),
        queries=queries,
        keys=keys,
        values=values,
        mask=attention_mask,
        scale=scaling,
        softcap=softcap,
        others=others,
    )
    return _bound.get()(call)[None], None
