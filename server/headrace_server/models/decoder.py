"""The decoder of the Llama family: Llama, SmolLM2, Mistral, Qwen2 and Qwen3.

A step is a few operations per layer, each one function here in plain torch, so that
each can have a fused kernel: `project_and_store`, `paged_attention`,
`add_projection_`, `add_gated_mlp_` and `head_logits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.nn import functional

from headrace_server.models.attention.sdpa import paged_attention
from headrace_server.models.rotary import rotate_

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from headrace_server.models.linear import Linear
    from headrace_server.models.step_inputs import StepInputs


@dataclass(frozen=True, slots=True)
class Norm:
    """Root-mean-square normalisation over the last dimension."""

    weight: torch.Tensor
    epsilon: float

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise."""
        return functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of a layer.

    Args:
        qkv: queries, keys and values at once; rows of queries and keys are interleaved
            as `rotary.interleave` does, and so are the weights of their norms.
        gate_up: gate and up projection at once.
        window: see `DecoderConfig.layer_windows`.
    """

    input_norm: Norm
    qkv: Linear
    query_norm: Norm | None
    key_norm: Norm | None
    output: Linear
    mlp_norm: Norm
    gate_up: Linear
    down: Linear
    window: int | None


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder with its weights.

    Args:
        embedding: [vocabulary, hidden], in the format of the checkpoint.
        rotations: see `rotary.rotation_table`.
        head_dim: size of an attention head.
        activations: the format of the hidden state.
    """

    embedding: torch.Tensor
    layers: Sequence[Layer]
    final_norm: Norm
    head: Linear
    rotations: torch.Tensor
    head_dim: int
    activations: torch.dtype

    def logits(self, step: StepInputs, cache: torch.Tensor) -> torch.Tensor:
        """Compute a step, storing keys and values in `cache`.

        Args:
            step: the inputs.
            cache: the KV cache, see `kv_cache.allocate`.

        Returns:
            Logits float32 [sampled rows, vocabulary].
        """
        # A block is read to its end before it is full. What an earlier owner left there is
        # hidden by the mask, but would spread if it were NaN.
        cache.index_fill_(1, step.begun_blocks, 0.0)
        hidden = functional.embedding(step.token_ids, self.embedding).to(self.activations)
        rotations = self.rotations[step.positions].unsqueeze(1)
        for layer, layer_cache in zip(self.layers, cache.unbind(), strict=True):
            queries = project_and_store(
                hidden, layer, rotations, self.head_dim, layer_cache, step.slots
            )
            attended = paged_attention(queries, layer_cache, step.attention, layer.window)
            add_projection_(hidden, attended, layer)
            add_gated_mlp_(hidden, layer)
        return head_logits(hidden, step.sampled_tokens, self.final_norm, self.head)


def project_and_store(
    hidden: torch.Tensor,
    layer: Layer,
    rotations: torch.Tensor,
    head_dim: int,
    layer_cache: torch.Tensor,
    slots: torch.Tensor,
) -> torch.Tensor:
    """Make queries, keys and values, rotate, and store keys and values at `slots`.

    Returns:
        The queries [tokens, heads * head_dim].
    """
    projected = layer.qkv(layer.input_norm(hidden))
    kv_width = layer_cache.shape[3] * head_dim
    query_width = projected.shape[1] - 2 * kv_width
    heads = projected[:, : query_width + kv_width].view(len(hidden), -1, head_dim)
    if layer.query_norm is not None and layer.key_norm is not None:
        num_query_heads = query_width // head_dim
        queries, keys = heads[:, :num_query_heads], heads[:, num_query_heads:]
        queries.copy_(layer.query_norm(queries))
        keys.copy_(layer.key_norm(keys))
    rotate_(heads, rotations)
    layer_cache.view(-1, 2 * kv_width).index_copy_(0, slots, projected[:, query_width:])
    return projected[:, :query_width]


def add_projection_(hidden: torch.Tensor, attended: torch.Tensor, layer: Layer) -> None:
    """Add the output projection of attention to the hidden state."""
    hidden.add_(layer.output(attended))


def add_gated_mlp_(hidden: torch.Tensor, layer: Layer) -> None:
    """Add the gated MLP of the hidden state to it."""
    gate, up = layer.gate_up(layer.mlp_norm(hidden)).chunk(2, dim=1)
    hidden.add_(layer.down(functional.silu(gate).mul_(up)))


def head_logits(
    hidden: torch.Tensor, token_indices: torch.Tensor, final_norm: Norm, head: Linear
) -> torch.Tensor:
    """Compute logits float32 [indices, vocabulary] for some of the tokens."""
    return head(final_norm(hidden.index_select(0, token_indices))).float()
