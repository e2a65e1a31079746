"""A loaded model, whichever decoder computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import torch

    from headrace_server.models.kv_cache import KvCache, KvShape
    from headrace_server.models.precision import Precision
    from headrace_server.models.step_inputs import StepInputs


class StepDecoder(Protocol):
    """Computes steps."""

    def logits(self, step: StepInputs, cache: KvCache) -> torch.Tensor:
        """Compute a step, storing keys and values in `cache`.

        Returns:
            Logits float32 [logit tokens, vocabulary].
        """


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A decoder, and what the engine needs to know of it.

    Args:
        kind: ``own``, or ``transformers`` for the fallback.
        architecture: as config.json names it.
        kv_shape: what it stores in the KV cache.
        context_length: most tokens of a sequence.
    """

    kind: Literal["own", "transformers"]
    architecture: str
    decoder: StepDecoder
    kv_shape: KvShape
    vocabulary_size: int
    context_length: int
    precision: Precision
