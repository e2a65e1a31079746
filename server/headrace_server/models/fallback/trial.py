"""Asks a model of transformers, by a forward of a few tokens, which attention it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from transformers import AttentionMaskInterface

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.fallback.attention import TRIAL, AttentionCall, attention_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transformers import PreTrainedModel

# Masks are looked at up to here; a window that is larger than this is none.
_MAX_LENGTH = 1 << 20

# Masks are looked at where these many queries stand, evenly spread, and just before each: at the
# ends of equal chunks alone, chunks would look like a window.
_NUM_QUERIES = 9

# What attention can be asked for beside scale and softcap, and paged attention has not.
_UNSUPPORTED = ("position_bias", "s_aux", "sinks", "head_mask")


@dataclass(frozen=True, slots=True)
class AttentionNeeds:
    """What all layers store and how each attends; a `KvShape`.

    Args:
        windows: of each layer, see `DecoderConfig.layer_windows`.
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    windows: tuple[int | None, ...]


def find_attention_needs(model: PreTrainedModel, context_length: int) -> AttentionNeeds:
    """Run a few tokens through the model and see what its layers ask for.

    Raises:
        ModelLoadError: the model's attention is not one that paged attention computes.
    """
    name = type(model).__name__
    AttentionMaskInterface.register(TRIAL, _describe_mask)
    model.set_attn_implementation(TRIAL)
    calls: list[AttentionCall] = []

    def attend(call: AttentionCall) -> torch.Tensor:
        calls.append(call)
        return torch.zeros_like(call.queries[..., :1]).expand(
            *call.queries.shape[:2], call.values.shape[2]
        )

    positions = torch.arange(2, device=model.device)[None]
    with torch.inference_mode(), attention_by(attend):
        model(input_ids=positions, position_ids=positions, use_cache=False)
    _check_layers(name, calls, model.config.num_hidden_layers)
    keys = calls[0].keys
    windows = [_window(name, call, context_length) for call in calls]
    return AttentionNeeds(len(calls), keys.shape[1], keys.shape[2], tuple(windows))


def _check_layers(name: str, calls: Sequence[AttentionCall], num_layers: int) -> None:
    if [call.layer_index for call in calls] != list(range(num_layers)):
        raise ModelLoadError(
            f"{name} cannot be served: not each of its layers is one of attention that can be "
            "replaced; see docs/models.md."
        )
    first = calls[0].keys.shape
    for call in calls:
        num_tokens, num_heads, head_dim = call.queries.shape
        for other in (call.keys, call.values):
            if other.shape != (num_tokens, first[1], head_dim) or other.shape != first:
                raise ModelLoadError(
                    f"{name} cannot be served: its layers differ in heads, or keys and values "
                    "differ in size, and the KV cache has one shape for all."
                )
        if num_heads % first[1]:
            raise ModelLoadError(f"{name} cannot be served: its heads do not share evenly.")
        unsupported = [key for key in _UNSUPPORTED if call.others.get(key) is not None]
        if unsupported:
            raise ModelLoadError(
                f"{name} cannot be served: its attention needs {', '.join(unsupported)}, which "
                "paged attention does not have."
            )


def _window(name: str, call: AttentionCall, context_length: int) -> int | None:
    if not isinstance(call.mask, torch.Tensor) or call.mask.dtype != torch.int64:
        raise ModelLoadError(
            f"{name} cannot be served: it makes the masks of its attention by itself."
        )
    window = int(call.mask.flatten()[0])
    return None if window >= min(context_length, _MAX_LENGTH) else window


def _describe_mask(
    *,
    q_length: int,
    kv_length: int,
    mask_function: Callable[..., torch.Tensor],
    config: Any,
    device: torch.device,
    **_: Any,
) -> torch.Tensor:
    """Stand in for a mask: return one that is filled with the number of keys that a query sees.

    The mask is looked at in the whole context, however short the forward is.
    """
    length = min(int(config.max_position_embeddings), _MAX_LENGTH)
    zero = torch.zeros(1, 1, 1, 1, dtype=torch.int64)
    spread = torch.linspace(1, length - 1, _NUM_QUERIES, dtype=torch.float64).long()
    queries = torch.cat((spread - 1, spread)).view(1, 1, -1, 1)
    keys = torch.arange(length).view(1, 1, 1, -1)
    seen = mask_function(zero, zero, queries, keys)
    window = int(seen[0, 0, -1].sum())
    expected = (keys <= queries) & (keys > queries - window)
    if not torch.equal(seen.expand_as(expected), expected):
        raise ModelLoadError(
            f"The model type {config.model_type!r} cannot be served: a token of it attends to "
            "others than those before it, all of them or a window."
        )
    return torch.full((1, 1, q_length, kv_length), window, dtype=torch.int64, device=device)
