"""How tokens are chosen, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.v1 import sampling_pb2
from headrace_server.rpc.convert.checks import require
from headrace_server.text.generation import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

# The engine looks at each of them in every step.
MAX_LOGIT_BIASES: Final = 1024
# Each candidate is a sequence of its own in the engine.
MAX_CANDIDATES: Final = 16

_FIELD: Final = "sampling"


def to_sampling(message: sampling_pb2.Sampling) -> Sampling:
    """Check the wishes of a request; what is not set is None.

    Raises:
        InvalidFieldError: a value is out of its range.
    """
    temperature = message.temperature if message.HasField("temperature") else None
    top_p = message.top_p if message.HasField("top_p") else None
    top_k = message.top_k if message.HasField("top_k") else None
    min_p = message.min_p if message.HasField("min_p") else None
    presence = message.presence_penalty if message.HasField("presence_penalty") else None
    frequency = message.frequency_penalty if message.HasField("frequency_penalty") else None
    repetition = message.repetition_penalty if message.HasField("repetition_penalty") else None
    _require_range("temperature", temperature, 0, 2)
    require(top_p is None or 0 < top_p <= 1, f"{_FIELD}.top_p", "must be above 0 and at most 1")
    require(top_k is None or top_k >= 0, f"{_FIELD}.top_k", "must be at least 0")
    _require_range("min_p", min_p, 0, 1)
    _require_range("presence_penalty", presence, -2, 2)
    _require_range("frequency_penalty", frequency, -2, 2)
    _require_range("repetition_penalty", repetition, 0.1, 10)
    return Sampling(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=message.seed if message.HasField("seed") else None,
        presence_penalty=presence,
        frequency_penalty=frequency,
        repetition_penalty=repetition,
        logit_bias=_to_logit_bias(message.logit_bias),
    )


def to_num_candidates(message: sampling_pb2.Sampling) -> int:
    """Check how many answers are wanted.

    Raises:
        InvalidFieldError: the number is out of its range.
    """
    count = message.candidate_count if message.HasField("candidate_count") else 1
    _require_range("candidate_count", count, 1, MAX_CANDIDATES)
    return count


def to_sampling_message(sampling: Sampling) -> sampling_pb2.Sampling:
    """Show the sampling that a request gets where it sets nothing."""
    return sampling_pb2.Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        repetition_penalty=sampling.repetition_penalty,
        candidate_count=1,
    )


def _to_logit_bias(bias: Mapping[int, float]) -> dict[int, float]:
    field = f"{_FIELD}.logit_bias"
    require(len(bias) <= MAX_LOGIT_BIASES, field, f"must hold at most {MAX_LOGIT_BIASES} token ids")
    for token_id, value in bias.items():
        # The vocabulary bounds the ids from above, and only a model has one.
        require(token_id >= 0, f"{field}[{token_id}]", "must be for a token id of at least 0")
        require(-100 <= value <= 100, f"{field}[{token_id}]", "must be from -100 to 100")
    return dict(bias)


def _require_range(name: str, value: float | None, low: float, high: float) -> None:
    # The comparison is false for NaN, so that NaN is refused too.
    is_in_range = value is None or low <= value <= high
    require(is_in_range, f"{_FIELD}.{name}", f"must be from {low} to {high}")
