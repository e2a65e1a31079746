"""How likely tokens were, in the shape of OpenAI's completions: four parallel arrays."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.v1 import logprobs_pb2

_LEAST_LOGPROB = -9999.0
"""OpenAI's number for what is out of the question; JSON has no infinity."""


class CompletionLogprobs(msgspec.Struct, frozen=True):
    r"""The tokens of a text, or of its new piece; the first token of a prompt has nulls.

    Args:
        tokens: their texts; one whose bytes are no whole characters is `bytes:\xf0\x9f`.
        token_logprobs: how likely each was.
        top_logprobs: for each the token itself and its likeliest rivals, by their texts.
        text_offset: where each begins, in characters of the choice's text.
    """

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []
    text_offset: list[int] = []

    def __add__(self, other: CompletionLogprobs) -> CompletionLogprobs:
        return CompletionLogprobs(
            self.tokens + other.tokens,
            self.token_logprobs + other.token_logprobs,
            self.top_logprobs + other.top_logprobs,
            self.text_offset + other.text_offset,
        )


class LogprobsWriter:
    """Writes the arrays of one text, piece by piece.

    Args:
        offset: where the first token begins, in characters.
        lead: how many of the first bytes are in the tokens and not in the text, such as
            those of a token that the tokenizer puts in front.
    """

    def __init__(self, offset: int = 0, lead: int = 0) -> None:
        self._offset = offset
        self._lead = lead
        # As the text itself is made: a character counts once it is complete.
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, messages: Iterable[logprobs_pb2.TokenLogprobs]) -> CompletionLogprobs:
        """Return the arrays of the next tokens."""
        logprobs = CompletionLogprobs([], [], [], [])
        for message in messages:
            is_told = message.HasField("logprob")
            logprobs.tokens.append(_text(message.token_bytes))
            logprobs.token_logprobs.append(_finite(message.logprob) if is_told else None)
            logprobs.top_logprobs.append(_top(message) if is_told else None)
            logprobs.text_offset.append(self._offset)
            self._advance(message.token_bytes)
        return logprobs

    def _advance(self, token_bytes: bytes) -> None:
        skipped = min(self._lead, len(token_bytes))
        self._lead -= skipped
        self._offset += len(self._characters.decode(token_bytes[skipped:]))


def lead_of(messages: Sequence[logprobs_pb2.TokenLogprobs], text: str) -> int:
    """Return how many bytes the first tokens of a prompt have before its text.

    A tokenizer may put a token of its own in front, a space, or both.
    """
    joined = b"".join(message.token_bytes for message in messages)
    wanted = text.encode()
    first = len(messages[0].token_bytes) if messages else 0
    for lead in (0, 1, first, first + 1):
        length = min(len(joined) - lead, len(wanted))
        if length > 0 and joined[lead : lead + length] == wanted[:length]:
            return lead
    return 0


def _top(message: logprobs_pb2.TokenLogprobs) -> dict[str, float]:
    """Return the rivals, the likeliest first, and the token where it is not one of them."""
    top: dict[str, float] = {}
    for rival in message.top:
        top.setdefault(_text(rival.token_bytes), _finite(rival.logprob))
    if message.token_id not in (rival.token_id for rival in message.top):
        top.setdefault(_text(message.token_bytes), _finite(message.logprob))
    return top


def _text(token_bytes: bytes) -> str:
    try:
        return token_bytes.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token_bytes)


def _finite(logprob: float) -> float:
    return max(logprob, _LEAST_LOGPROB)
