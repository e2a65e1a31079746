"""Turns text into token ids with a model's tokenizer.json."""

from __future__ import annotations

import hashlib
import os
import secrets
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import tokenizers

from headrace_server.text.control_tokens import ControlTokenFinder
from headrace_server.text.detokenizer import SPACE_MARK, TokenDecoder
from headrace_server.text.infill import CONTROL_TOKENS
from headrace_server.text.model_files import ModelFileError, read_optional_json, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from pathlib import Path

    from headrace_server.text.control_tokens import MarkedText

# The named tokens of tokenizer_config.json, which chat templates use by these names.
SPECIAL_TOKEN_NAMES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)

# A character that no tokenizer joins with what follows, as Meta's code for Code Llama has it.
_ANCHOR = "☺"


class Tokenizer:
    """The tokenizer of a model; several threads may use it at once.

    Args:
        tokenizer: recognises control tokens.
        plain_tokenizer: the same one, but control tokens are text like any other and
            `boundary` is a token.
        boundary: a text that nobody writes.
        special_tokens: the tokens that tokenizer_config.json names, by name.
        decoder: tokens to text.
        fingerprint: the SHA-256 of tokenizer.json in hexadecimal.

    Attributes:
        beginning: the ids that the tokenizer adds to the start of a text.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        plain_tokenizer: tokenizers.Tokenizer,
        boundary: str,
        special_tokens: Mapping[str, str],
        decoder: TokenDecoder,
        fingerprint: str,
    ) -> None:
        self._tokenizer = tokenizer
        self._plain_tokenizer = plain_tokenizer
        self._boundary = boundary
        self.special_tokens = special_tokens
        self.decoder = decoder
        self.fingerprint = fingerprint
        self.control_tokens = ControlTokenFinder(tokenizer)
        self._anchor_ids = self._encode_plain(_ANCHOR, is_first=True)
        self._has_leading_space = _starts_with_space(tokenizer, self._anchor_ids)
        self.beginning = _beginning(tokenizer)

    @classmethod
    def load(cls, directory: Path) -> Tokenizer:
        """Read tokenizer.json and, where the model has one, tokenizer_config.json.

        Raises:
            ModelFileError: a file is missing or broken.
        """
        path = directory / "tokenizer.json"
        content = read_text(path)
        # A text has a thread to itself already; the library's own threads would only
        # warn about forks.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        tokenizer = _load(path, content)
        plain_tokenizer = _load(path, content)
        plain_tokenizer.encode_special_tokens = True
        _mark_as_special(plain_tokenizer, CONTROL_TOKENS)
        boundary = secrets.token_hex(16)
        plain_tokenizer.add_tokens([tokenizers.AddedToken(boundary, normalized=False)])
        return cls(
            tokenizer=tokenizer,
            plain_tokenizer=plain_tokenizer,
            boundary=boundary,
            special_tokens=_special_tokens(read_optional_json(directory / "tokenizer_config.json")),
            decoder=TokenDecoder(tokenizer),
            fingerprint=hashlib.sha256(content.encode()).hexdigest(),
        )

    def token_id(self, token: str) -> int | None:
        """Return the id of a token; None when there is none."""
        token_id: int | None = self._tokenizer.token_to_id(token)
        return token_id

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Return the token ids of `text`, in which control tokens are recognised.

        Args:
            text: without lone surrogates.
            add_special_tokens: whether the model's tokens for the start (and end) of
                a text are added.
        """
        return _encode(self._tokenizer, text, add_special_tokens=add_special_tokens)

    def encode_marked(self, marked: MarkedText) -> list[int]:
        """Return the token ids of a chat in which callers' control tokens are plain text.

        The tokenizer treats the text between two control tokens by itself, so the
        chat is cut at those of the template only. Each section with a caller's
        control token is read as if there were no control tokens.
        """
        token_ids: list[int] = []
        done = 0
        for start, end in self._plain_sections(marked):
            token_ids += self.encode(marked.text[done:start], add_special_tokens=False)
            token_ids += self._encode_plain(marked.text[start:end], is_first=start == 0)
            done = end
        return token_ids + self.encode(marked.text[done:], add_special_tokens=False)

    def encode_before_gap(self, text: str) -> list[int]:
        """Return the token ids of the text before a gap, in which control tokens are plain text.

        A tokenizer that puts a space before a text does so; else a token goes before it.
        """
        return self._encode_plain(text, is_first=self._has_leading_space) if text else []

    def encode_after_gap(self, text: str) -> list[int]:
        """Return the token ids of the text after a gap: the same, but never with such a space."""
        if not self._has_leading_space:
            return self._encode_plain(text, is_first=False)
        return self._encode_plain(_ANCHOR + text, is_first=True)[len(self._anchor_ids) :]

    def _plain_sections(self, marked: MarkedText) -> list[tuple[int, int]]:
        """Return what lies between two control tokens of the template and holds one of a caller."""
        sections = []
        section_start = 0
        is_plain = False
        [spans] = self.control_tokens.find([marked.text])
        for start, end in [*spans, (len(marked.text), len(marked.text))]:
            if start < end and marked.is_of_caller((start, end)):
                is_plain = True
                continue
            if is_plain:
                sections.append((section_start, start))
            section_start = end
            is_plain = False
        return sections

    def _encode_plain(self, text: str, *, is_first: bool) -> list[int]:
        if is_first:
            return _encode(self._plain_tokenizer, text, add_special_tokens=False)
        # Some tokenizers treat the start of a text in their own way, so a token goes
        # before it, as in the chat.
        text = self._boundary + text
        return _encode(self._plain_tokenizer, text, add_special_tokens=False)[1:]


def _load(path: Path, content: str) -> tokenizers.Tokenizer:
    try:
        tokenizer = tokenizers.Tokenizer.from_str(content)
    except Exception as error:  # the library raises no narrower class
        raise ModelFileError(path, "the file is not a tokenizer; fetch the model again") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _encode(tokenizer: tokenizers.Tokenizer, text: str, *, add_special_tokens: bool) -> list[int]:
    # `encode` holds the interpreter's lock all the time, which stops the event loop;
    # `encode_batch_fast` releases it and computes no offsets.
    [encoding] = tokenizer.encode_batch_fast([text], add_special_tokens=add_special_tokens)
    token_ids: list[int] = encoding.ids
    return token_ids


def _mark_as_special(tokenizer: tokenizers.Tokenizer, names: Set[str]) -> None:
    """Mark added tokens as control tokens where the tokenizer's file does not."""
    added = tokenizer.get_added_tokens_decoder().values()
    unmarked = [token.content for token in added if token.content in names and not token.special]
    tokenizer.add_special_tokens([tokenizers.AddedToken(name, special=True) for name in unmarked])


def _starts_with_space(tokenizer: tokenizers.Tokenizer, token_ids: Sequence[int]) -> bool:
    first = tokenizer.id_to_token(token_ids[0]) if token_ids else None
    return first is not None and first.startswith(SPACE_MARK)


def _beginning(tokenizer: tokenizers.Tokenizer) -> tuple[int, ...]:
    """Return the ids of the tokens that are added to the start of a text."""
    encoding = tokenizer.encode(_ANCHOR)
    is_added = zip(encoding.ids, encoding.special_tokens_mask, strict=True)
    return tuple(token_id for token_id, _ in takewhile(lambda pair: pair[1] == 1, is_added))


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the named tokens of a tokenizer_config.json, written as text or as objects."""
    tokens = {}
    for name in SPECIAL_TOKEN_NAMES:
        value = config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        if isinstance(value, str):
            tokens[name] = value
    return tokens
