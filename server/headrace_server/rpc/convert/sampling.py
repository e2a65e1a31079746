"""How tokens are chosen, in both directions."""

from __future__ import annotations

from headrace.v1 import sampling_pb2
from headrace_server.rpc.convert.checks import require
from headrace_server.text.generation import Sampling


def to_sampling(message: sampling_pb2.Sampling) -> Sampling:
    """Check the wishes of a request; what is not set is None.

    Raises:
        InvalidFieldError: a value is out of its range.
    """
    temperature = message.temperature if message.HasField("temperature") else None
    top_p = message.top_p if message.HasField("top_p") else None
    top_k = message.top_k if message.HasField("top_k") else None
    min_p = message.min_p if message.HasField("min_p") else None
    # Each comparison is false for NaN, so that NaN is refused too.
    require(
        temperature is None or 0 <= temperature <= 2,
        "sampling.temperature",
        "must be from 0 to 2",
    )
    require(top_p is None or 0 < top_p <= 1, "sampling.top_p", "must be above 0 and at most 1")
    require(top_k is None or top_k >= 0, "sampling.top_k", "must be at least 0")
    require(min_p is None or 0 <= min_p <= 1, "sampling.min_p", "must be from 0 to 1")
    return Sampling(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        min_p=min_p,
        seed=message.seed if message.HasField("seed") else None,
    )


def to_sampling_message(sampling: Sampling) -> sampling_pb2.Sampling:
    """Show the sampling that a request gets where it sets nothing."""
    return sampling_pb2.Sampling(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
    )
