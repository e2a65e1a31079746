"""Turns token ids into text one by one: byte-exact, in constant time per token."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tokenizers import Tokenizer

SPACE_MARK = "▁"

# Tokens before a piece that can change its text, for decoders without a byte table.
CONTEXT_TOKENS = 6

# Tokens whose text a decoder without a byte table may hold back: a character has 4 bytes, each a
# token at most, with room for joiners; above it the text is garbage.
MAX_HELD_TOKENS = 16


class Detokenizer(Protocol):
    """The text of one sequence of tokens."""

    def feed(self, token_id: int, *, show_special: bool = False) -> str:
        """Return the whole characters that this token completes.

        Ids that the tokenizer does not know have no text.

        Args:
            token_id: the next token.
            show_special: whether a special token has text.
        """

    def fed_bytes(self, token_id: int, text: str, *, show_special: bool = False) -> bytes:
        """Return what the token that was fed last adds to the text, in UTF-8.

        In a sequence that continues others, those of all tokens are together the text but for
        an incomplete character at its end.

        Args:
            token_id: the token.
            text: what `feed` returned.
            show_special: as it was fed.
        """

    def flush(self) -> str:
        """End the text; an incomplete character becomes U+FFFD."""


class TokenDecoder:
    """How the token ids of one tokenizer become text.

    Args:
        tokenizer: the loaded tokenizer.json.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        added = tokenizer.get_added_tokens_decoder()
        self._special_ids = frozenset(id_ for id_, token in added.items() if token.special)
        self._tokenizer = tokenizer
        self._num_leading_spaces = 0
        self._bytes_alone: dict[int, bytes] = {}
        self._token_bytes: dict[int, bytes] | None = None
        if (rule := _byte_rule(_decoder_steps(tokenizer))) is not None:
            to_bytes, self._num_leading_spaces = rule
            tokens = {id_: token for token, id_ in tokenizer.get_vocab().items()}
            tokens |= {id_: token.content for id_, token in added.items()}  # they come first
            self._token_bytes = {id_: to_bytes(token) for id_, token in tokens.items()}

    def start(self, after: Sequence[int] = ()) -> Detokenizer:
        """Begin a sequence of tokens.

        Args:
            after: the tokens before it. Where there are some, the text is what they
                are continued by, which can begin with a space.
        """
        if self._token_bytes is None:
            context = [id_ for id_ in after[-CONTEXT_TOKENS:] if id_ not in self._special_ids]
            return _WindowDetokenizer(self._tokenizer, self._special_ids, context)
        num_leading_spaces = 0 if after else self._num_leading_spaces
        return _ByteDetokenizer(self._token_bytes, self._special_ids, num_leading_spaces)

    def bytes_of(self, token_id: int) -> bytes:
        """Return a token by itself in UTF-8; it may be a part of a character.

        Special tokens have their names, and ids that the tokenizer does not know nothing.
        """
        if self._token_bytes is not None:
            return self._token_bytes.get(token_id, b"")
        token_bytes = self._bytes_alone.get(token_id)
        if token_bytes is None:
            token_bytes = self._tokenizer.decode([token_id], skip_special_tokens=False).encode()
            self._bytes_alone[token_id] = token_bytes
        return token_bytes


class _ByteDetokenizer:
    """Looks each token's bytes up and decodes UTF-8 incrementally."""

    def __init__(
        self,
        token_bytes: Mapping[int, bytes],
        special_ids: frozenset[int],
        num_leading_spaces: int,
    ) -> None:
        self._token_bytes = token_bytes
        self._special_ids = special_ids
        self._num_leading_spaces = num_leading_spaces  # to leave out at the start of the text
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token_id: int, *, show_special: bool = False) -> str:
        if token_id in self._special_ids and not show_special:
            return ""
        text = self._utf8.decode(self._token_bytes.get(token_id, b""))
        return self._strip(text) if self._num_leading_spaces else text

    def fed_bytes(self, token_id: int, text: str, *, show_special: bool = False) -> bytes:
        if token_id in self._special_ids and not show_special:
            return b""
        return self._token_bytes.get(token_id, b"")

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)

    def _strip(self, text: str) -> str:
        while text and self._num_leading_spaces:
            if text[0] != " ":
                self._num_leading_spaces = 0
                break
            text = text[1:]
            self._num_leading_spaces -= 1
        return text


class _WindowDetokenizer:
    """Decodes a short window again for each token and returns what is new at its end."""

    def __init__(
        self, tokenizer: Tokenizer, special_ids: frozenset[int], context: Sequence[int]
    ) -> None:
        self._tokenizer = tokenizer
        self._special_ids = special_ids
        self._window = list(context)
        self._num_read = len(self._window)  # tokens of the window whose text was returned

    def feed(self, token_id: int, *, show_special: bool = False) -> str:
        if token_id in self._special_ids and not show_special:
            return ""
        if token_id < 0 or self._tokenizer.id_to_token(token_id) is None:
            return ""
        self._window.append(token_id)
        text = self._unread()
        is_full = len(self._window) - self._num_read >= MAX_HELD_TOKENS
        is_whole = bool(text) and not text.endswith("\ufffd")
        return self._read(text) if is_whole or is_full else ""

    def fed_bytes(self, token_id: int, text: str, *, show_special: bool = False) -> bytes:
        return text.encode()

    def flush(self) -> str:
        return self._read(self._unread())

    def _unread(self) -> str:
        read = self._decode(self._window[: self._num_read])
        return self._decode(self._window)[len(read) :]

    def _read(self, text: str) -> str:
        self._window = self._window[-CONTEXT_TOKENS:]
        self._num_read = len(self._window)
        return text

    def _decode(self, token_ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=False)
        return text


_ByteRule = tuple["Callable[[str], bytes]", int]


def _decoder_steps(tokenizer: Tokenizer) -> list[Mapping[str, Any]]:
    """Return the steps of the tokenizer's decoder as they stand in tokenizer.json."""
    if tokenizer.decoder is None:
        return []
    return _flatten(json.loads(tokenizer.decoder.__getstate__()))


def _flatten(decoder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if decoder["type"] == "Sequence":
        return [step for part in decoder["decoders"] for step in _flatten(part)]
    return [decoder]


def _byte_rule(steps: Sequence[Mapping[str, Any]]) -> _ByteRule | None:
    """Return how a token becomes bytes and how many spaces the start of a text loses.

    None when the text of a token depends on its neighbours in another way.
    """
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return _byte_level_bytes, 0
    if kinds[:3] == ["Replace", "ByteFallback", "Fuse"] and _replaces_space_mark(steps[0]):
        if kinds[3:] == []:
            return _sentencepiece_bytes, 0
        if kinds[3:] == ["Strip"] and steps[3]["content"] == " " and not steps[3]["stop"]:
            return _sentencepiece_bytes, steps[3]["start"]
    return None


def _replaces_space_mark(step: Mapping[str, Any]) -> bool:
    return (step["pattern"], step["content"]) == ({"String": SPACE_MARK}, " ")


def _sentencepiece_bytes(token: str) -> bytes:
    if re.fullmatch("<0x[0-9A-Fa-f]{2}>", token):
        return bytes([int(token[3:5], 16)])
    return token.replace(SPACE_MARK, " ").encode()


def _byte_level_bytes(token: str) -> bytes:
    try:
        return bytes([_BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:  # an added token is its own text
        return token.encode()


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes stand for themselves, the rest for U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(0x100) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + index): byte for index, byte in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_alphabet()
