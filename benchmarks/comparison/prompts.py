"""Prompts of an exact number of tokens that share no beginning."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING

from tokenizers import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path

# In the vocabularies of byte-level BPE this is the space before a word.
_SPACE = "Ġ"
_WORD = re.compile(_SPACE + r"[a-z]{3,}")
_NUM_TRIES = 20


class PromptError(Exception):
    """No text of this length can be made with this tokenizer."""


class Prompts:
    """Makes prompts out of words that are one token each.

    Args:
        tokenizer: that of the model which all servers run.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._words = sorted(
            token.replace(_SPACE, " ") for token in tokenizer.get_vocab() if _WORD.fullmatch(token)
        )

    @classmethod
    def load(cls, tokenizer_file: Path) -> Prompts:
        """Read the tokenizer."""
        return cls(Tokenizer.from_file(str(tokenizer_file)))

    def text(self, label: str, num_tokens: int) -> str:
        """Return a text of exactly this many tokens; the same label gives the same text.

        Raises:
            PromptError: the tokenizer splits or joins the words of every text that was tried.
        """
        if not self._words:
            raise PromptError("The tokenizer has no words of one token; choose another model.")
        source = random.Random(label)
        for _ in range(_NUM_TRIES):
            text = "".join(source.choices(self._words, k=num_tokens))
            if len(self.token_ids(text)) == num_tokens:
                return text
        raise PromptError(
            f"The tokenizer made no text of {num_tokens} tokens out of {num_tokens} words; "
            "choose another model."
        )

    def token_ids(self, text: str) -> list[int]:
        """Tokenize as the servers do: with what the tokenizer adds to every text."""
        ids: list[int] = self._tokenizer.encode(text).ids
        return ids
