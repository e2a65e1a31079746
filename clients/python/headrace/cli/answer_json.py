"""A whole answer as one JSON object."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import headrace


def to_json(generation: headrace.Generation) -> dict[str, Any]:
    """Return the answer with its facts: one candidate as it is, several as a list."""
    candidates = [_candidate(candidate) for candidate in generation.candidates]
    return {
        **(candidates[0] if len(candidates) == 1 else {"candidates": candidates}),
        "usage": asdict(generation.usage),
        "timing": asdict(generation.timing),
        "request_id": generation.request_id,
    }


def _candidate(candidate: headrace.Candidate) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "text": candidate.text,
        "token_ids": candidate.token_ids,
        "finish": asdict(candidate.finish),
    }
    if candidate.reasoning:
        fields["reasoning"] = candidate.reasoning
    if candidate.logprobs:
        fields["logprobs"] = [
            _token(each) | {"top": [_token(top) for top in each.top]} for each in candidate.logprobs
        ]
    return fields


def _token(token: headrace.TokenLogprobs | headrace.TopLogprob) -> dict[str, Any]:
    is_number = token.logprob is not None and math.isfinite(token.logprob)
    return {
        "token_id": token.token_id,
        "text": token.text,
        "bytes": list(token.token_bytes),
        "logprob": token.logprob if is_number else None,  # JSON knows no infinity
    }
