"""Constraints are compiled beside the steps, and outputs follow them from token to token."""

import threading
from pathlib import Path

import pytest
from llguidance import LLParserLimits

from headrace_server.engine import simulated_model
from headrace_server.engine.constraint_compiler import ConstraintError
from headrace_server.engine.constraints import MAX_KEPT_GRAMMARS, GrammarCompiler
from headrace_server.engine.grammar_vocabulary import GrammarVocabulary, VocabularyError
from headrace_server.engine.messages import Constraint
from headrace_server.engine.simulated_vocabulary import (
    END_OF_TEXT,
    END_OF_TURN,
    VOCABULARY_SIZE,
)
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    GrammarConstraint,
    JsonObjectConstraint,
    RegexConstraint,
)
from tests.server.engine.following import (
    accept_all,
    allowed,
    compiled,
    constraint_of,
    token_ids_of,
)

NEVER_SECONDS = 60.0

ENDS = [END_OF_TURN, END_OF_TEXT]
[A, B, C] = b"abc"


def load_vocabulary():
    return GrammarVocabulary.load(Path(simulated_model.__file__).parent, VOCABULARY_SIZE)


@pytest.fixture
def compiler():
    with GrammarCompiler(load_vocabulary) as compiler:
        yield compiler


class GatedVocabulary:
    """A vocabulary that compiles when the test says so, and counts what it compiles."""

    def __init__(self):
        self._vocabulary = load_vocabulary()
        self.gate = threading.Event()
        self.compiled = []

    def matcher(self, text):
        assert self.gate.wait(NEVER_SECONDS)
        self.compiled.append(text)
        return self._vocabulary.matcher(text)

    def __getattr__(self, name):
        return getattr(self._vocabulary, name)


@pytest.fixture
def gated():
    vocabulary = GatedVocabulary()
    yield vocabulary
    vocabulary.gate.set()


@pytest.fixture
def gated_compiler(gated):
    with GrammarCompiler(lambda: gated) as compiler:
        yield compiler
        gated.gate.set()


def test_end_of_text_is_allowed_where_the_output_may_end(compiler):
    """All of the ids, there and nowhere else."""
    state = compiled(compiler, RegexConstraint("ab*c?"), ENDS)
    assert allowed(state) == [A]
    assert state.accept(A)
    assert allowed(state) == [B, C, END_OF_TEXT, END_OF_TURN]
    assert not state.is_complete


def test_an_output_that_nothing_can_follow_is_complete(compiler):
    """It ends by itself, whether there are ids that end it or not."""
    for stop_token_ids in (ENDS, []):
        state = compiled(compiler, RegexConstraint("ab*c?"), stop_token_ids)
        accept_all(state, b"ab")
        assert not state.is_complete
        accept_all(state, b"c")
        assert state.is_complete


def test_without_ids_that_end_it_an_output_goes_on_where_it_may(compiler):
    """As for a request that ignores the end of the text."""
    state = accept_all(compiled(compiler, RegexConstraint("ab*c?")), b"a")
    assert allowed(state) == [B, C]


def test_a_stop_token_of_text_is_text(compiler):
    """It is allowed where the text is, and does not say that the output may end there."""
    state = compiled(compiler, RegexConstraint("ab+"), [C, B, END_OF_TURN])
    accept_all(state, b"a")
    assert allowed(state) == [B]


def test_a_stop_token_waits_for_its_time_only_where_something_else_is_left(compiler):
    """The constraint wins over the least number of tokens."""
    state = compiled(compiler, RegexConstraint("ab*c"), [B, C, END_OF_TURN])
    accept_all(state, b"a")
    assert allowed(state, may_stop=False) == [B, C]
    state = compiled(compiler, RegexConstraint("a*b"), [B])
    assert allowed(state, may_stop=False) == [A]
    state = compiled(compiler, RegexConstraint("a*"), ENDS)
    assert allowed(state, may_stop=False) == [A]


def test_a_token_that_is_not_allowed_is_not_accepted(compiler):
    """Nor is an end of text, which ends the sequence and is no part of its output."""
    for token_id in (B, END_OF_TURN, VOCABULARY_SIZE - 1):
        state = compiled(compiler, RegexConstraint("ab"), ENDS)
        assert not state.accept(token_id)


def test_control_tokens_are_never_text(compiler):
    """Whatever the grammar allows, and also where it spells one out."""
    for spec in (RegexConstraint(r"(?s:.)*"), GrammarConstraint("start: T\nT: ~/abc/")):
        assert max(allowed(compiled(compiler, spec))) < 256
    state = compiled(compiler, ChoicesConstraint(("<|im_end|>",)), ENDS)
    accept_all(state, b"<|im_end|>")
    assert state.is_complete


@pytest.mark.parametrize("vocabulary_size", [263, 264, 288, 289, 1000])
def test_padding_of_the_vocabulary_is_not_allowed(vocabulary_size):
    """Masks have the size of the model's vocabulary, which may be larger than the tokenizer's."""
    vocabulary = GrammarVocabulary.load(Path(simulated_model.__file__).parent, vocabulary_size)
    with GrammarCompiler(lambda: vocabulary) as compiler:
        state = compiled(compiler, RegexConstraint(r"(?s:.)*"), [vocabulary_size])
        words = state.mask(may_stop=True).wait()
    assert words.shape == (-(-vocabulary_size // 32),)
    assert max(token_ids_of(words)) < 256


def test_a_vocabulary_may_be_smaller_than_that_of_the_tokenizer():
    """No id that the model does not have is allowed."""
    vocabulary = GrammarVocabulary.load(Path(simulated_model.__file__).parent, 98)
    with GrammarCompiler(lambda: vocabulary) as compiler:
        assert allowed(compiled(compiler, RegexConstraint("[a-z]"))) == [A]


def test_each_sequence_is_at_its_own_place(compiler):
    """Those with the same grammar share its compilation, and nothing else."""
    spec = RegexConstraint("ab|cd")
    first = compiled(compiler, spec)
    second = compiled(compiler, spec)
    accept_all(first, b"a")
    accept_all(second, b"c")
    assert [allowed(first), allowed(second)] == [[B], [ord("d")]]
    assert allowed(compiled(compiler, spec)) == [A, C]


def test_nothing_waits_for_a_compilation(gated, gated_compiler):
    """It is not ready until it is done."""
    pending = gated_compiler.start(constraint_of(RegexConstraint("a")), ENDS)
    assert not pending.is_ready
    gated.gate.set()
    pending._compilation.grammar.result(NEVER_SECONDS)
    assert pending.is_ready
    assert allowed(pending.take()) == [A]


def test_a_grammar_is_compiled_once(gated, gated_compiler):
    """However many sequences have it; of those that are not used, the oldest are forgotten."""
    gated.gate.set()
    for _ in range(3):
        compiled(gated_compiler, RegexConstraint("a"))
    assert len(gated.compiled) == 1
    for index in range(MAX_KEPT_GRAMMARS - 1):
        compiled(gated_compiler, RegexConstraint(f"b{index}"))
    compiled(gated_compiler, RegexConstraint("a"))
    compiled(gated_compiler, RegexConstraint("c"))
    assert len(gated.compiled) == MAX_KEPT_GRAMMARS + 1
    compiled(gated_compiler, RegexConstraint("a"))
    compiled(gated_compiler, RegexConstraint("b1"))
    assert len(gated.compiled) == MAX_KEPT_GRAMMARS + 1
    compiled(gated_compiler, RegexConstraint("b0"))
    assert len(gated.compiled) == MAX_KEPT_GRAMMARS + 2


def test_what_nobody_waits_for_is_not_compiled(gated, gated_compiler):
    """But what one has given up and another still wants is, and what is wanted again."""
    fillers = [gated_compiler.start(constraint_of(RegexConstraint(text)), []) for text in "xy"]
    given_up = constraint_of(RegexConstraint("a"))
    shared = constraint_of(RegexConstraint("b"))
    gated_compiler.start(given_up, []).cancel()
    gated_compiler.start(shared, []).cancel()
    waiting = [gated_compiler.start(shared, []), gated_compiler.start(shared, [])]
    waiting[0].cancel()
    gated.gate.set()
    for pending in (*fillers, waiting[1]):
        pending._compilation.grammar.result(NEVER_SECONDS)
    assert given_up.grammar not in gated.compiled
    assert gated.compiled.count(shared.grammar) == 1
    assert allowed(compiled(gated_compiler, RegexConstraint("a"))) == [A]


def test_a_grammar_that_cannot_be_compiled_is_told(compiler):
    """Each time that it comes."""
    for _ in range(2):
        pending = compiler.start(Constraint("start: ("), ENDS)
        pending._compilation.grammar.exception(NEVER_SECONDS)
        with pytest.raises(ConstraintError, match=r"^its grammar cannot be compiled: "):
            pending.take()


def test_without_a_vocabulary_no_constraint_can_be_followed():
    """The sequence fails, and the engine goes on."""

    def fail():
        raise VocabularyError("No.")

    with GrammarCompiler(fail) as compiler, pytest.raises(ConstraintError):
        compiled(compiler, JsonObjectConstraint())


# Each output of it teaches the matcher new states.
MANY_STATES = RegexConstraint("([ab]*a[ab]{40}|c+)d")


@pytest.fixture
def narrow_compiler():
    """One whose matchers can have few states."""
    limits = LLParserLimits(max_lexer_states=500)
    directory = Path(simulated_model.__file__).parent
    vocabulary = GrammarVocabulary.load(directory, VOCABULARY_SIZE, limits)
    with GrammarCompiler(lambda: vocabulary) as compiler:
        yield compiler


def test_a_matcher_at_its_limit_ends_no_sequence_that_is_within_its_own(narrow_compiler):
    """What others did with the same grammar does not count, before and after."""
    bystander = accept_all(compiled(narrow_compiler, MANY_STATES), b"cc")
    exhaust(narrow_compiler)
    assert allowed(bystander) == [C, ord("d")]
    newcomer = accept_all(compiled(narrow_compiler, MANY_STATES), b"cd")
    assert newcomer.is_complete


def test_a_sequence_beyond_its_own_limit_has_nothing_left(narrow_compiler):
    """An empty mask lets it fail alone."""
    assert allowed(exhaust(narrow_compiler)) == []


def exhaust(compiler):
    """Make an output that is longer than the states of any matcher suffice for."""
    state = compiled(compiler, MANY_STATES)
    text = "".join(f"{number:016b}" for number in range(1000)).encode()
    for token_id in text.translate(bytes.maketrans(b"01", b"ab")):
        if not allowed(state):
            return state
        assert state.accept(token_id)
    raise AssertionError("it has no end of states")
