"""How likely a token was, with the text that it and its rivals stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.logprobs import TokenLogprobs
    from headrace_server.text.detokenizer import TokenDecoder


@dataclass(frozen=True, slots=True)
class TextLogprobs:
    """How likely a token was where it stands.

    Args:
        token_id: the token.
        token_bytes: what it adds to the text in UTF-8; characters may be spread over tokens.
        logprob: None for the first token of a prompt, which nothing precedes.
        top_token_ids: the most likely tokens, the most likely first.
        top_token_bytes: theirs, in the same order; control tokens have their names.
        top_logprobs: theirs, in the same order.
    """

    token_id: int
    token_bytes: bytes
    logprob: float | None
    top_token_ids: Sequence[int] = ()
    top_token_bytes: Sequence[bytes] = ()
    top_logprobs: Sequence[float] = ()


def add_bytes(
    logprobs: TokenLogprobs, token_id: int, token_bytes: bytes, decoder: TokenDecoder
) -> TextLogprobs:
    """Add bytes to what the engine tells of a token."""
    return TextLogprobs(
        token_id=token_id,
        token_bytes=token_bytes,
        logprob=logprobs.logprob,
        top_token_ids=logprobs.top_token_ids,
        top_token_bytes=[decoder.bytes_of(each) for each in logprobs.top_token_ids],
        top_logprobs=logprobs.top_logprobs,
    )
