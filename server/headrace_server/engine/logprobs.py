"""How likely a token was: a record that goes from the sampler to the front as it is."""

from __future__ import annotations

import msgspec


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Log probabilities at one position, of the model's own distribution.

    That is the softmax of the raw logits: before bias, penalties, masks and temperature.

    Args:
        logprob: of the token that stands there.
        top_token_ids: the most likely ids, the most likely first; may hold the token itself.
        top_logprobs: theirs, in the same order.
    """

    logprob: float
    top_token_ids: list[int]
    top_logprobs: list[float]
