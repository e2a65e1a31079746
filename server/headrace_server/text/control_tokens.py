"""Keeps the control tokens that callers write in a chat apart from those of its template.

Before rendering, two marks that no text of the chat holds go round each control
token of a caller; what the template writes itself is not marked. Templates see the
words unchanged otherwise, so what they look for or cut off works as always.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, models

from headrace_server.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Span = tuple[int, int]

# Private characters to try as marks; a chat that holds all of them is no text.
NUM_CANDIDATES = 4096


def unused_characters(texts: Sequence[str], number: int) -> list[str]:
    """Return private-use characters that none of `texts` holds.

    Raises:
        InvalidFieldError: they hold too many of them.
    """
    unused: list[str] = []
    for code in range(0xF0000, 0xF0000 + NUM_CANDIDATES):
        if not any(chr(code) in text for text in texts):
            unused.append(chr(code))
        if len(unused) == number:
            return unused
    message = "The messages hold too many private-use characters; remove some."
    raise InvalidFieldError("chat.messages", message)


class ControlTokenFinder:
    """Finds control tokens in text exactly as the tokenizer does.

    It is a tokenizer of its own that knows nothing but the special tokens.

    Args:
        tokenizer: the model's tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        added = tokenizer.get_added_tokens_decoder().values()
        self._finder = Tokenizer(models.BPE())
        if tokenizer.normalizer is not None:
            self._finder.normalizer = tokenizer.normalizer
        self._finder.add_special_tokens([token for token in added if token.special])

    def find(self, texts: Sequence[str]) -> list[list[Span]]:
        """Return the start and end of each control token in each text.

        White space that a token swallows belongs to it.
        """
        # Most texts have none, and to see that takes a quarter of the time that offsets take.
        quick = self._finder.encode_batch_fast(texts, add_special_tokens=False)
        if not any(encoding.ids for encoding in quick):
            return [[] for _ in texts]
        encodings = self._finder.encode_batch(texts, add_special_tokens=False)
        return [encoding.offsets for encoding in encodings]


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters before and after a control token of a caller."""

    opening: str
    closing: str

    def put(self, text: str, spans: Iterable[Span]) -> str:
        """Return `text` with marks round each of `spans`, but not round white space."""
        parts = []
        done = 0
        for start, end in spans:
            token = text[start:end].strip() or text[start:end]
            token_start = text.index(token, start)
            parts += [text[done:token_start], self.opening, token, self.closing]
            done = token_start + len(token)
        return "".join([*parts, text[done:]])

    def take(self, marked: str) -> MarkedText:
        """Return the text without the marks, and the places where they were."""
        parts: list[str] = []
        opened: list[int] = []
        closed: list[int] = []
        length = 0
        for part in re.split(f"([{self.opening}{self.closing}])", marked):
            if part == self.opening:
                opened.append(length)
            elif part == self.closing:
                closed.append(length)
            else:
                parts.append(part)
                length += len(part)
        return MarkedText("".join(parts), tuple(opened), tuple(closed))


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A rendered chat.

    Args:
        text: without marks.
        opened: where the opening marks were, in order.
        closed: where the closing marks were, in order.
    """

    text: str
    opened: tuple[int, ...]
    closed: tuple[int, ...]

    def is_of_caller(self, span: Span) -> bool:
        """Whether the control token at `span` had marks round it or one inside.

        A mark is inside where a template took a caller's text apart: what it joins
        there is still the caller's.
        """
        start, end = span
        between = any(_holds(marks, start + 1, end - 1) for marks in (self.opened, self.closed))
        return between or (_holds(self.opened, start, start) and _holds(self.closed, end, end))


def _holds(places: Sequence[int], first: int, last: int) -> bool:
    """Whether one of the sorted `places` is from `first` to `last`."""
    index = bisect_left(places, first)
    return index < len(places) and places[index] <= last
