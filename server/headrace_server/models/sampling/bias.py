"""Adds what a request asks for to the logits of single ids, and takes banned ids away."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from headrace_server.models.sampling.places import Places

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from headrace_server.engine.model_runner import RowSampling


def add_bias_(logits: torch.Tensor, rows: Sequence[RowSampling]) -> None:
    """Add `logit_bias`, and -infinity to banned ids, in logits float32 [rows, vocabulary].

    Raises:
        IndexError: an id is outside the vocabulary.
    """
    places = Places()
    for index, row in enumerate(rows):
        if row.banned_token_ids:
            places.add(index, np.asarray(row.banned_token_ids, dtype=np.int64), -math.inf)
        if row.logit_bias:
            num_ids = len(row.logit_bias)
            token_ids = np.fromiter(row.logit_bias, dtype=np.int64, count=num_ids)
            biases = np.fromiter(row.logit_bias.values(), dtype=np.float32, count=num_ids)
            places.add(index, token_ids, biases)
    if places:
        at, amounts = places.tensors(logits.device)
        # Accumulated, for an id may be both banned and biased.
        logits.index_put_(at, amounts, accumulate=True)
