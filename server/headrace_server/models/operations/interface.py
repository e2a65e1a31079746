"""What the decoder is written in: the few operations of a layer, bound to one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from headrace_server.models.decoder import Layer, Norm
    from headrace_server.models.kv_cache import KvCache, LayerCache
    from headrace_server.models.linear import Linear
    from headrace_server.models.step_inputs import StepInputs


class StepOperations(Protocol):
    """The operations for the tokens of one step.

    A token's results depend on its own sequence alone, so that an answer is the same alone and
    in any batch.
    """

    def project_and_store(
        self, hidden: torch.Tensor, layer: Layer, cache: LayerCache
    ) -> torch.Tensor:
        """Normalise, make queries, keys and values, rotate, and store keys and values.

        Args:
            hidden: [tokens, hidden].
            layer: with the weights.
            cache: where keys and values go, at the slots of the step.

        Returns:
            The queries [tokens, heads * head_dim].
        """

    def attend(self, queries: torch.Tensor, layer: Layer, cache: LayerCache) -> torch.Tensor:
        """Attend to the cached context of each token, the token itself included.

        Returns:
            [tokens, heads * head_dim].
        """

    def add_projection_(self, hidden: torch.Tensor, attended: torch.Tensor, layer: Layer) -> None:
        """Add the output projection of attention to the hidden state."""

    def add_gated_mlp_(self, hidden: torch.Tensor, layer: Layer) -> None:
        """Add the gated MLP of the normalised hidden state to it."""

    def head_logits(
        self, hidden: torch.Tensor, token_indices: torch.Tensor, norm: Norm, head: Linear
    ) -> torch.Tensor:
        """Compute logits float32 [indices, vocabulary] for some of the tokens."""


class Operations(Protocol):
    """One implementation of the operations, for one model."""

    def bind(self, step: StepInputs, cache: KvCache) -> StepOperations:
        """Prepare what every layer of the step needs."""
