"""How much memory of a GPU steps take beside the weights and the KV cache. An estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_server.models.linear import DenseLinear

if TYPE_CHECKING:
    from headrace_server.engine.limits import SchedulerLimits
    from headrace_server.models.decoder import Decoder
    from headrace_server.models.linear import Linear

# Of a logit: what the head gives, float32 for the graphs and for the step, the copy that outlives
# the next step, and two of these sizes for the sampling.
_LOGIT_BYTES = 2 + 5 * 4

# What a recorded step takes for its own description, and the libraries for their workspaces.
_GRAPH_BYTES = 8 << 20
_OTHER_BYTES = 256 << 20


def step_bytes(decoder: Decoder, limits: SchedulerLimits, num_graphs: int) -> int:
    """Return what the largest step takes, and the graphs of decode steps.

    Args:
        decoder: its matrices are `DenseLinear`.
        limits: of a step.
        num_graphs: decode steps that are recorded.
    """
    hidden = len(decoder.final_norm.weight)
    layer = decoder.layers[0]
    # The hidden state, normed and not, and what each matrix gives or takes: no more than this is
    # there at once.
    widths = 3 * hidden + 2 * _num_outputs(layer.qkv) + 2 * _num_outputs(layer.gate_up)
    token_bytes = widths * decoder.activations.itemsize
    logits_bytes = limits.max_num_sequences * limits.vocabulary_size * _LOGIT_BYTES
    # Graphs keep the memory of their largest step to themselves.
    num_tokens = limits.max_num_batched_tokens + limits.max_num_sequences
    graph_bytes = num_graphs * _GRAPH_BYTES
    return num_tokens * token_bytes + logits_bytes + graph_bytes + _OTHER_BYTES


def _num_outputs(linear: Linear) -> int:
    assert isinstance(linear, DenseLinear)  # as the decoder must have them
    return linear.num_outputs
