"""The decoder of the Llama family; `config.SUPPORTED_ARCHITECTURES` names its members.

A step is four operations per layer and the head; see `operations.interface`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from headrace_server.models.embedding import Embedding
    from headrace_server.models.kv_cache import KvCache
    from headrace_server.models.linear import Linear
    from headrace_server.models.operations.interface import Operations, StepOperations
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
        index: from 0.
        qkv: queries, keys and values at once; rows of queries and keys are interleaved
            as `rotary.interleave` does, and so are the weights of their norms.
        gate_up: gate and up projection at once.
        window: see `DecoderConfig.layer_windows`.
        is_rotated: see `DecoderConfig.layer_rotations`.
    """

    index: int
    input_norm: Norm
    qkv: Linear
    query_norm: Norm | None
    key_norm: Norm | None
    output: Linear
    mlp_norm: Norm
    gate_up: Linear
    down: Linear
    window: int | None
    is_rotated: bool = True


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder with its weights.

    Args:
        embedding: in the format of the checkpoint.
        activations: the format of the hidden state.
        operations: that compute the steps.
    """

    embedding: Embedding
    layers: Sequence[Layer]
    final_norm: Norm
    head: Linear
    activations: torch.dtype
    operations: Operations

    def logits(self, step: StepInputs, cache: KvCache) -> torch.Tensor:
        """Compute a step, storing keys and values in `cache`.

        Returns:
            Logits float32 [logit tokens, vocabulary].
        """
        operations = self.operations.bind(step, cache)
        return self.compute(operations, step.token_ids, step.logit_tokens, cache)

    def compute(
        self,
        operations: StepOperations,
        token_ids: torch.Tensor,
        logit_tokens: torch.Tensor,
        cache: KvCache,
    ) -> torch.Tensor:
        """Compute a step for which the operations are bound; see `logits`."""
        hidden = self.embedding(token_ids).to(self.activations)
        for layer, layer_cache in zip(self.layers, cache.layers, strict=True):
            queries = operations.project_and_store(hidden, layer, layer_cache)
            attended = operations.attend(queries, layer, layer_cache)
            operations.add_projection_(hidden, attended, layer)
            operations.add_gated_mlp_(hidden, layer)
        return operations.head_logits(hidden, logit_tokens, self.final_norm, self.head)
