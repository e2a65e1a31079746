"""How likely the tokens of a prompt were, in vLLM's shape: an object by token ids for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace_gateway.openai.logprobs import finite

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import logprobs_pb2


class PromptLogprob(msgspec.Struct, frozen=True):
    """One of the tokens in a place; `rank` counts from 1 and is null below what was asked for."""

    logprob: float
    rank: int | None
    decoded_token: str


def prompt_logprobs(
    messages: Iterable[logprobs_pb2.TokenLogprobs],
) -> list[dict[int, PromptLogprob] | None]:
    """Return for each token itself and its rivals; null for the first, which nothing precedes."""
    return [_place(message) if message.HasField("logprob") else None for message in messages]


def _place(message: logprobs_pb2.TokenLogprobs) -> dict[int, PromptLogprob]:
    place = {
        top.token_id: PromptLogprob(finite(top.logprob), rank, _text(top.token_bytes))
        for rank, top in enumerate(message.top, 1)
    }
    own = PromptLogprob(finite(message.logprob), None, _text(message.token_bytes))
    place.setdefault(message.token_id, own)
    return place


def _text(token_bytes: bytes) -> str:
    return token_bytes.decode("utf-8", "replace")
