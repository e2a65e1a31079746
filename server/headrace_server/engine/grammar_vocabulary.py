"""The tokens of a model as grammars see them, and the limits within which grammars are followed."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import llguidance
import msgspec
import numpy as np

from headrace_server.unused_memory import release_unused_memory

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import numpy.typing as npt

    Words = npt.NDArray[np.int32]

# The library's defaults let one mask take 0.2 s, and one grammar 0.25 GB. The largest schemas that
# were tried need a tenth of these.
LIMITS: Final = llguidance.LLParserLimits(
    initial_lexer_fuel=300_000,
    step_lexer_fuel=200_000,
    step_max_items=20_000,
    max_lexer_states=50_000,  # of half a KiB each
    max_grammar_size=200_000,
    verbose_errors=False,  # they would quote the grammar in logs
)

_WORD_BITS: Final = 32


class GrammarError(Exception):
    """A grammar that cannot be followed; the message is the library's own and may quote it."""


class VocabularyError(Exception):
    """The tokenizer is not one that grammars can be used with; the message is one sentence."""


class GrammarVocabulary:
    """A model's tokens; several threads may use it at once.

    Masks are words of 32 bits, [ceil(vocabulary_size / 32)]: bit i % 32 of word i // 32 stands
    for token i. The model's vocabulary may be larger than its tokenizer's, or smaller.

    Args:
        tokenizer: knows the tokens by their bytes. Which one it takes for the end of text does not
            matter, as long as it is no token of text.
        vocabulary_size: number of ids that the model can choose.
        limits: of each grammar.
    """

    def __init__(
        self,
        tokenizer: llguidance.LLTokenizer,
        vocabulary_size: int,
        limits: llguidance.LLParserLimits = LIMITS,
    ) -> None:
        self._tokenizer = tokenizer
        self._vocabulary_size = vocabulary_size
        self._limits = limits
        self._num_words = -(-vocabulary_size // _WORD_BITS)
        self._num_tokenizer_words = -(-tokenizer.vocab_size // _WORD_BITS)
        self._text_words = self.words(
            token_id
            for token_id in range(tokenizer.vocab_size)
            if not tokenizer.is_special_token(token_id)
        )

    @classmethod
    def load(
        cls,
        directory: Path,
        vocabulary_size: int,
        limits: llguidance.LLParserLimits = LIMITS,
    ) -> GrammarVocabulary:
        """Read the tokenizer.json of a model. The library holds the interpreter's lock meanwhile.

        Raises:
            VocabularyError: it is not one that grammars can be used with.
        """
        try:
            document = msgspec.json.decode((directory / "tokenizer.json").read_bytes())
            control_ids = _hide_control_tokens(document)
            text = msgspec.json.encode(document).decode()
            del document  # tens of MiB, and the library needs as many while it reads the text
            tokenizer = llguidance.LLTokenizer(text, eos_token=min(control_ids))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise VocabularyError(
                "The tokenizer of the model cannot be used with constraints."
            ) from error
        release_unused_memory()
        return cls(tokenizer, vocabulary_size, limits)

    def words(self, token_ids: Iterable[int]) -> Words:
        """Return the mask that allows the given tokens; what is outside the vocabulary is none."""
        bits = np.zeros(self._num_words * _WORD_BITS, dtype=np.uint8)
        known = [token_id for token_id in token_ids if 0 <= token_id < self._vocabulary_size]
        bits[known] = 1
        return np.packbits(bits, bitorder="little").view(np.int32)

    def token_ids(self, characters: str) -> set[int]:
        """Return the tokens with which each of some characters is spelt."""
        return {id_ for each in characters for id_ in self._tokenizer.tokenize_str(each)}

    def is_text(self, token_id: int) -> bool:
        """Whether a token is text, and not a control token or none at all."""
        word, bit = divmod(token_id, _WORD_BITS)
        return 0 <= word < self._num_words and bool(self._text_words[word] >> bit & 1)

    def matcher(self, grammar: str) -> llguidance.LLMatcher:
        """Compile a grammar, which may take long; other Python threads run meanwhile.

        Raises:
            GrammarError: it is malformed or too complex.
        """
        matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0, limits=self._limits)
        _check(matcher)
        return matcher

    def text_mask(self, matcher: llguidance.LLMatcher) -> Words:
        """Return the tokens of text with which the output can go on.

        It takes milliseconds at most for most grammars; other Python threads run meanwhile.

        Raises:
            GrammarError: this point of the grammar is too complex.
        """
        words = np.zeros(self._num_tokenizer_words, dtype=np.int32)
        matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        _check(matcher)
        size = min(len(words), self._num_words)
        mask = np.zeros(self._num_words, dtype=np.int32)
        mask[:size] = words[:size] & self._text_words[:size]
        return mask


def _check(matcher: llguidance.LLMatcher) -> None:
    if matcher.is_error():
        raise GrammarError(matcher.get_error())


def _hide_control_tokens(document: Any) -> list[int]:
    """Give the control tokens of a tokenizer names that nobody writes, and return their ids.

    The library would otherwise take the text ``<|im_start|>`` in a grammar for the token. Added
    tokens that are text, but not plain text, it takes for control tokens too, or for other text:
    so they are made control tokens, and their text is spelt with others.
    """
    secret = secrets.token_hex(16)
    names = {}
    control_ids = []
    for token in document["added_tokens"]:
        if token["special"] or not _is_plain(token["content"]):
            names[token["content"]] = token["content"] = f"{secret}-{token['id']}"
            token["special"] = True
            control_ids.append(token["id"])
    model = document["model"]
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(name, name): index for name, index in vocabulary.items()}
    else:
        model["vocab"] = [[names.get(name, name), score] for name, score in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    # It adds control tokens by their names, and is not used here.
    document["post_processor"] = None
    return control_ids


def _is_plain(text: str) -> bool:
    return text.isascii() and not text.startswith("<")
