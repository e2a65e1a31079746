"""How likely a token was, as the client returns it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One of the most likely tokens in a place.

    Args:
        token_id: the token.
        token_bytes: the token in UTF-8, maybe a part of a character.
        logprob: the natural logarithm of its probability.
    """

    token_id: int
    token_bytes: bytes
    logprob: float

    @property
    def text(self) -> str:
        """The token as text; a part of a character is U+FFFD."""
        return self.token_bytes.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """How likely a token was where it stands, by the distribution of the model itself.

    Args:
        token_id: the token.
        token_bytes: what it adds to the text in UTF-8, maybe a part of a character; the bytes of
            all tokens, joined, are the text.
        logprob: the natural logarithm of its probability; None for the first token of a prompt.
        top: the most likely tokens in its place, as many as asked for, the most likely first.
    """

    token_id: int
    token_bytes: bytes
    logprob: float | None
    top: tuple[TopLogprob, ...] = ()

    @property
    def text(self) -> str:
        """What the token adds to the text; a part of a character is U+FFFD."""
        return self.token_bytes.decode("utf-8", "replace")
