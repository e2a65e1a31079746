"""A constraint compiler under the hand of a test: a grammar is the text that the output must be."""

import numpy as np

from headrace_server.engine.constraint_compiler import ConstraintError
from headrace_server.engine.simulated_vocabulary import END_OF_TURN, VOCABULARY_SIZE


class FakeCompiler:
    """Compiles at once, or when the test says so; "broken" cannot be compiled."""

    def __init__(self, *, is_ready=True):
        self.is_ready = is_ready
        self.pending = []

    def start(self, constraint, stop_token_ids):
        self.pending.append(FakePendingConstraint(self, constraint.grammar))
        return self.pending[-1]


class FakePendingConstraint:
    def __init__(self, compiler, grammar):
        self._compiler = compiler
        self._grammar = grammar
        self.is_cancelled = False

    @property
    def is_ready(self):
        return self._compiler.is_ready

    def take(self):
        if self._grammar == "broken":
            raise ConstraintError("the grammar is broken")
        return FakeConstraintState(self._grammar)

    def cancel(self):
        self.is_cancelled = True


class FakeConstraintState:
    """Allows the bytes of the text in their order, then the end of the turn."""

    is_complete = False

    def __init__(self, text):
        self._rest = [*text.encode(), END_OF_TURN]

    def mask(self, *, may_stop):
        return FakeMask(self._rest[:1])

    def accept(self, token_id):
        return token_id == self._rest.pop(0)


class FakeMask:
    def __init__(self, allowed_token_ids):
        self._allowed_token_ids = allowed_token_ids

    def wait(self):
        words = np.zeros(-(-VOCABULARY_SIZE // 32), np.uint32)
        for token_id in self._allowed_token_ids:
            words[token_id // 32] |= np.uint32(1 << token_id % 32)
        return words.view(np.int32)
