"""What the engine is told of a request: one sequence for each candidate. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_server.engine.messages import AddSequence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.backends.interface import BackendRequest


def to_sequences(request: BackendRequest, sequence_ids: range) -> Iterator[AddSequence]:
    """Return the messages in order; all share the prompt of the first, which tells its logprobs."""
    sampling = request.sampling
    for index, sequence_id in enumerate(sequence_ids):
        is_first = index == 0
        yield AddSequence(
            sequence_id=sequence_id,
            prompt_token_ids=list(request.prompt_token_ids),
            temperature=sampling.temperature,
            top_k=sampling.top_k,
            top_p=sampling.top_p,
            min_p=sampling.min_p,
            seed=_wrap(sampling.seed + index),
            max_output_tokens=request.max_output_tokens,
            min_output_tokens=request.min_output_tokens,
            stop_token_ids=list(request.stop_token_ids),
            logit_bias=dict(sampling.logit_bias),
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            repetition_penalty=sampling.repetition_penalty,
            num_top_logprobs=request.num_top_logprobs,
            num_prompt_top_logprobs=request.num_prompt_top_logprobs if is_first else None,
            constraint=request.constraint,
            priority=request.priority,
            caller=request.caller,
            cache_identity=request.cache_identity,
            shares_prompt_with=None if is_first else sequence_ids[0],
        )


def _wrap(seed: int) -> int:
    """Bring the sum of a seed and an index back into the signed 64 bits."""
    return (seed + 2**63) % 2**64 - 2**63
