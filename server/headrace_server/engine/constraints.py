"""Compiles the grammars of constraints in threads beside the steps, and keeps the last ones.

Implements the protocols of `engine.constraint_compiler` together with `engine.grammar_state`.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Self

from headrace_server.engine.constraint_compiler import ConstraintError
from headrace_server.engine.grammar_state import CompiledGrammar, GrammarState
from headrace_server.engine.grammar_vocabulary import GrammarError, VocabularyError
from headrace_server.engine.threads import DeepThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from types import TracebackType

    from headrace_server.engine.grammar_vocabulary import GrammarVocabulary
    from headrace_server.engine.messages import Constraint

# Compiled grammars that are kept, of at most some 30 MB each; most callers repeat theirs.
MAX_KEPT_GRAMMARS: Final = 32

# One grammar that takes seconds must not hold up those that take milliseconds.
_NUM_COMPILE_THREADS: Final = 2

_MAX_MASK_THREADS: Final = 4


class GrammarCompiler:
    """Implements `ConstraintCompiler`. For the thread of the steps alone.

    Entering has the vocabulary loaded in a thread, where the library holds the interpreter's lock
    for up to seconds: that is for the time before there are sequences. Leaving drops what waits
    for a thread.

    The front has compiled each grammar before, within limits of time, memory and stack; here it
    only takes as long again.

    Args:
        load_vocabulary: the tokens of the model.
    """

    def __init__(self, load_vocabulary: Callable[[], GrammarVocabulary]) -> None:
        self._load_vocabulary = load_vocabulary
        self._compile_threads = DeepThreads(_NUM_COMPILE_THREADS, "grammar")
        self._mask_threads = DeepThreads(min(os.cpu_count() or 1, _MAX_MASK_THREADS), "mask")
        self._kept: OrderedDict[str, _Compilation] = OrderedDict()

    def __enter__(self) -> Self:
        self._vocabulary = self._compile_threads.submit(self._load_vocabulary)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._compile_threads.close()
        self._mask_threads.close()

    def start(self, constraint: Constraint, stop_token_ids: Sequence[int]) -> PendingGrammar:
        """Begin to compile and return at once; see `ConstraintCompiler`."""
        compilation = self._kept.get(constraint.grammar)
        if compilation is None or not compilation.is_usable:
            grammar = self._compile_threads.submit(self._compile, constraint.grammar)
            compilation = self._kept[constraint.grammar] = _Compilation(grammar)
            if len(self._kept) > MAX_KEPT_GRAMMARS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(constraint.grammar)
        return PendingGrammar(compilation, stop_token_ids, self._mask_threads)

    def _compile(self, text: str) -> CompiledGrammar:
        return CompiledGrammar(self._vocabulary.result(), text)


class _Compilation:
    """A grammar that is compiled, or being compiled, for all sequences with it."""

    def __init__(self, grammar: Future[CompiledGrammar]) -> None:
        self.grammar = grammar
        self.num_waiting = 0

    @property
    def is_usable(self) -> bool:
        """Whether it is worth waiting for, or could be compiled and still works."""
        if self.grammar.cancelled():
            return False
        if not self.grammar.done() or self.grammar.exception() is not None:
            return True
        return not self.grammar.result().is_spent


class PendingGrammar:
    """Implements `PendingConstraint`."""

    def __init__(
        self, compilation: _Compilation, stop_token_ids: Sequence[int], threads: DeepThreads
    ) -> None:
        compilation.num_waiting += 1
        self._compilation = compilation
        self._stop_token_ids = stop_token_ids
        self._threads = threads

    @property
    def is_ready(self) -> bool:
        """Whether `take` has an answer."""
        return self._compilation.grammar.done()

    def take(self) -> GrammarState:
        """Return the state before the first token.

        Raises:
            ConstraintError: the grammar could not be compiled.
        """
        self._compilation.num_waiting -= 1
        try:
            grammar = self._compilation.grammar.result()
        except (GrammarError, VocabularyError) as error:
            raise ConstraintError(f"its grammar cannot be compiled: {error}") from error
        return GrammarState(grammar, self._stop_token_ids, self._threads)

    def cancel(self) -> None:
        """Compile it no more where that has not begun and nobody else waits."""
        self._compilation.num_waiting -= 1
        if self._compilation.num_waiting == 0:
            self._compilation.grammar.cancel()
