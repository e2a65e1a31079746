"""How far one output has followed a grammar, and the masks of its tokens."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace_server.engine.grammar_vocabulary import GrammarError
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from llguidance import LLMatcher

    from headrace_server.engine.grammar_vocabulary import GrammarVocabulary, Words
    from headrace_server.engine.threads import DeepThreads

# Many times what a mask can take within the limits of grammars.
_MAX_MASK_SECONDS: Final = 10.0

_log = logging.getLogger(__name__)


class CompiledGrammar:
    """A grammar with the tokens of a model, ready for any number of outputs.

    The library lets the matchers of one grammar share what they learn of it, which makes masks
    fast, and shares the limit of that as well: so a matcher of one's own may still work where a
    shared one is at its limit.

    Args:
        vocabulary: the tokens.
        text: see `engine.messages.Constraint`.

    Attributes:
        is_spent: whether its matchers have reached their limit, so that it is of no more use.

    Raises:
        GrammarError: it is malformed or too complex.
    """

    def __init__(self, vocabulary: GrammarVocabulary, text: str) -> None:
        self.vocabulary = vocabulary
        self._text = text
        self._matcher = vocabulary.matcher(text)
        vocabulary.text_mask(self._matcher)  # so that no output has to learn its first tokens
        self.is_spent = False

    def matcher(self) -> LLMatcher:
        """Return one for the start of an output, at once."""
        return self._matcher.deep_copy()

    def own_matcher(self) -> LLMatcher:
        """Compile it again, for an output that shares nothing."""
        return self.vocabulary.matcher(self._text)


class GrammarState:
    """Implements `ConstraintState`.

    An output that nothing can follow is complete and ends by itself, without a token that ends
    it: it does so as well for a model that has none, a request that ignores them, and before the
    least number of tokens. Where the output may end but may also go on, the stop tokens that are
    no text can be chosen too.

    A grammar that gets too complex on its way leaves no token at all, which ends its sequence and
    no other.

    Args:
        grammar: what it must match.
        stop_token_ids: see `ConstraintCompiler`.
        threads: where masks are made.
    """

    def __init__(
        self, grammar: CompiledGrammar, stop_token_ids: Sequence[int], threads: DeepThreads
    ) -> None:
        vocabulary = grammar.vocabulary
        ends = [token_id for token_id in stop_token_ids if not vocabulary.is_text(token_id)]
        self._grammar = grammar
        self._matcher = grammar.matcher()
        self._shares_matcher = True
        self._stops = vocabulary.words(stop_token_ids)
        self._ends = vocabulary.words(ends)
        self._threads = threads
        self._token_ids: list[int] = []

    def mask(self, *, may_stop: bool) -> GrammarMask:
        """Begin to make the mask of the next token and return at once.

        Args:
            may_stop: False leaves out the stop tokens, unless the grammar leaves nothing else.
        """
        words = self._threads.submit(self._words, may_stop=may_stop)
        return GrammarMask(words, self._grammar.vocabulary)

    def accept(self, token_id: int) -> bool:
        """Advance by the token that was chosen; False when the grammar does not allow it."""
        self._token_ids.append(token_id)
        return self._matcher.consume_token(token_id)

    @property
    def is_complete(self) -> bool:
        """Whether nothing can follow the tokens that were accepted."""
        return self._matcher.is_stopped() and self._matcher.is_accepting()

    def _words(self, *, may_stop: bool) -> Words:
        try:
            allowed = self._text_words()
        except GrammarError as error:
            log_event(_log, logging.WARNING, "grammar failed", why=str(error))
            return self._grammar.vocabulary.words(())
        if self._matcher.is_accepting():
            allowed |= self._ends
        if may_stop:
            return allowed
        going_on = allowed & ~self._stops
        return going_on if going_on.any() else allowed

    def _text_words(self) -> Words:
        vocabulary = self._grammar.vocabulary
        try:
            return vocabulary.text_mask(self._matcher)
        except GrammarError:
            if not self._shares_matcher:
                raise
        self._grammar.is_spent = True
        self._shares_matcher = False
        self._matcher = self._grammar.own_matcher()
        self._matcher.consume_tokens(self._token_ids)
        return vocabulary.text_mask(self._matcher)


class GrammarMask:
    """Implements `TokenMask`.

    Args:
        words: to come from a thread.
        vocabulary: the tokens.
    """

    def __init__(self, words: Future[Words], vocabulary: GrammarVocabulary) -> None:
        self._words = words
        self._vocabulary = vocabulary

    def wait(self) -> Words:
        """Return the bits; none is set when the grammar cannot be followed any further."""
        try:
            return self._words.result(_MAX_MASK_SECONDS)
        except TimeoutError:
            log_event(_log, logging.ERROR, "mask took too long", seconds=_MAX_MASK_SECONDS)
            return self._vocabulary.words(())
