"""Makes tokens less likely that have occurred."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from headrace_server.models.sampling.places import Places

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import RowSampling


def penalise_(logits: torch.Tensor, rows: Sequence[RowSampling]) -> None:
    """Apply the penalties of the rows to logits float32 [rows, vocabulary].

    First the repetition penalty, over prompt and output: it divides what is positive and
    multiplies what is not. Then, over the output, the frequency penalty for each time that a token
    occurs, and the presence penalty once.

    Raises:
        IndexError: an id is outside the vocabulary.
    """
    _penalise_repetition_(logits, rows)
    _penalise_occurrence_(logits, rows)


def _penalise_repetition_(logits: torch.Tensor, rows: Sequence[RowSampling]) -> None:
    places = Places()
    for index, row in enumerate(rows):
        if row.repetition_penalty != 1.0:
            for token_ids in (row.prompt_token_ids, row.output_token_ids):
                places.add(index, np.asarray(token_ids, dtype=np.int64), row.repetition_penalty)
    if places:
        at, penalties = places.tensors(logits.device)
        seen = logits[at]
        # An id that occurs twice is put twice, both times the same.
        logits[at] = torch.where(seen > 0.0, seen / penalties, seen * penalties)


def _penalise_occurrence_(logits: torch.Tensor, rows: Sequence[RowSampling]) -> None:
    places = Places()
    for index, row in enumerate(rows):
        if row.presence_penalty or row.frequency_penalty:
            output = np.asarray(row.output_token_ids, dtype=np.int64)
            token_ids, counts = np.unique(output, return_counts=True)
            places.add(index, token_ids, counts * row.frequency_penalty + row.presence_penalty)
    if places:
        at, amounts = places.tensors(logits.device)
        logits[at] -= amounts
