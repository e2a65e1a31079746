"""How likely tokens were, in the shape of OpenAI's chats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import logprobs_pb2

_LEAST_LOGPROB = -9999.0
"""OpenAI's number for what is out of the question; JSON has no infinity."""


class TopLogprob(msgspec.Struct, frozen=True):
    """One of the most likely tokens; its text has U+FFFD where its bytes are no characters."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(msgspec.Struct, frozen=True):
    """A token of the answer; the bytes of all of them are its text before a stop is cut off.

    One that adds nothing to the text, such as its end, has no bytes.
    """

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(msgspec.Struct, frozen=True):
    """The tokens of an answer, or of its new piece."""

    content: list[TokenLogprob]
    refusal: None = None


def choice_logprobs(
    messages: Iterable[logprobs_pb2.TokenLogprobs],
) -> ChoiceLogprobs | None:
    """Return what the contract tells, an entry for each token; None where it tells nothing."""
    content = [_token(message) for message in messages]
    return ChoiceLogprobs(content) if content else None


def _token(message: logprobs_pb2.TokenLogprobs) -> TokenLogprob:
    return TokenLogprob(
        _text(message.token_bytes or _name_among_rivals(message)),
        finite(message.logprob),
        list(message.token_bytes),
        [
            TopLogprob(_text(top.token_bytes), finite(top.logprob), list(top.token_bytes))
            for top in message.top
        ],
    )


def _name_among_rivals(message: logprobs_pb2.TokenLogprobs) -> bytes:
    """Return the name of a control token, so that it is found in its own list."""
    names = (top.token_bytes for top in message.top if top.token_id == message.token_id)
    return next(names, b"")


def _text(token_bytes: bytes) -> str:
    return token_bytes.decode("utf-8", "replace")


def finite(logprob: float) -> float:
    """Return a log probability as JSON can have it."""
    return max(logprob, _LEAST_LOGPROB)
