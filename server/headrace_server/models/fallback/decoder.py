"""A decoder of transformers, computing steps over the engine's KV cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_server.models.attention.paged_step import PagedStep
from headrace_server.models.attention.sdpa import Scoring
from headrace_server.models.fallback.attention import AttentionCall, attention_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from transformers import PreTrainedModel

    from headrace_server.models.kv_cache import KvCache
    from headrace_server.models.precision import Precision
    from headrace_server.models.step_inputs import StepInputs


@dataclass(frozen=True, slots=True)
class TransformersDecoder:
    """A model of transformers; a `StepDecoder`.

    Args:
        model: whose attention is `fallback.attention.PAGED`.
        windows: of each layer, see `DecoderConfig.layer_windows`.
        precision: where and in which formats the model computes.
    """

    model: PreTrainedModel
    windows: Sequence[int | None]
    precision: Precision

    def logits(self, step: StepInputs, cache: KvCache) -> torch.Tensor:
        """Compute a step; see `StepDecoder.logits`."""
        paged = PagedStep(step, cache, set(self.windows), self.precision)

        def attend(call: AttentionCall) -> torch.Tensor:
            assert call.layer_index is not None  # the trial has seen to it
            layer_cache = cache.layers[call.layer_index]
            paged.store(call.keys, call.values, layer_cache)
            scoring = Scoring(self.windows[call.layer_index], call.scale, call.softcap)
            queries = call.queries.to(self.precision.activations).flatten(1)
            attended = paged.attend(queries, layer_cache, scoring)
            return attended.view(call.queries.shape).to(call.values.dtype)

        with attention_by(attend):
            output = self.model(
                input_ids=step.token_ids[None],
                position_ids=step.positions[None],
                use_cache=False,
                logits_to_keep=step.logit_tokens,
            )
        logits: torch.Tensor = output.logits[0].float()
        return logits
