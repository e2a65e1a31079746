"""Answers of the simulated model under real constraints, from the scheduler to the last token."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from llguidance import LLParserLimits

from headrace_server.engine import simulated_model
from headrace_server.engine.constraints import GrammarCompiler
from headrace_server.engine.grammar_vocabulary import LIMITS, GrammarVocabulary
from headrace_server.engine.messages import Constraint
from headrace_server.engine.simulated_vocabulary import END_OF_TEXT, END_OF_TURN, VOCABULARY_SIZE
from headrace_server.grammar.spec import JsonSchemaConstraint, RegexConstraint
from tests.server.engine.following import constraint_of
from tests.server.engine.stepped_engine import SteppedEngine, solo_answer

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "tags": {
            "type": "array",
            "items": {"enum": ["red", "green"]},
            "minItems": 2,
            "maxItems": 3,
        },
        "size": {"type": "integer", "minimum": 7, "maximum": 40},
    },
    "required": ["name", "tags", "size"],
    "additionalProperties": False,
}


class ConstrainedEngine(SteppedEngine):
    """An engine that waits until a constraint is compiled before it goes on."""

    def add(self, sequence_id, prompt=b"prompt", **options):
        super().add(sequence_id, prompt, **options)
        pending = self.scheduler._live[sequence_id].pending_constraint
        if pending is not None:
            pending._compilation.grammar.exception(timeout=60)

    def outcome(self, sequence_id):
        """The text of an answer and how it ended."""
        text = bytes(token_id for token_id in self.answers[sequence_id] if token_id < 256)
        return text.decode(), *self.finishes[sequence_id]


def load_vocabulary(limits=LIMITS):
    return GrammarVocabulary.load(Path(simulated_model.__file__).parent, VOCABULARY_SIZE, limits)


@pytest.fixture
def engine():
    with GrammarCompiler(load_vocabulary) as compiler:
        yield ConstrainedEngine(compiler=compiler, num_blocks=1024)


def test_an_answer_is_what_its_schema_describes(engine):
    """Greedy and drawn, in one batch with an answer that is free."""
    constraint = constraint_of(JsonSchemaConstraint(json.dumps(SCHEMA)))
    for sequence_id in range(4):
        engine.add(
            sequence_id,
            constraint=constraint,
            temperature=float(sequence_id),
            seed=sequence_id,
            max_output_tokens=1000,
        )
    engine.add(4)
    engine.run()

    outcomes = [engine.outcome(sequence_id) for sequence_id in range(4)]
    for text, _ in outcomes:
        jsonschema.validate(json.loads(text), SCHEMA)
    assert [finish for _, finish in outcomes] == ["complete"] * 4
    assert engine.answers[4] == solo_answer()


def test_a_complete_answer_ends_whatever_the_request_wants(engine):
    """Without ids that end it, and before the least number of tokens."""
    constraint = constraint_of(RegexConstraint("abc"))
    engine.add(0, constraint=constraint)
    engine.add(1, constraint=constraint, stop_token_ids=[])
    engine.add(2, constraint=constraint, min_output_tokens=10)
    engine.add(3, constraint=constraint, max_output_tokens=3)
    engine.run()

    assert [engine.outcome(i) for i in range(4)] == [("abc", "complete")] * 4


def test_an_answer_that_may_end_ends_with_one_of_all_ids_that_end_it(engine):
    """There, and after the least number of tokens."""
    constraint = constraint_of(RegexConstraint("a*"))
    engine.add(0, constraint=constraint, min_output_tokens=6, stop_token_ids=[END_OF_TURN])
    engine.add(1, constraint=constraint, min_output_tokens=6, stop_token_ids=[END_OF_TEXT])
    engine.run()

    for sequence_id, end in ((0, END_OF_TURN), (1, END_OF_TEXT)):
        text, finish = engine.outcome(sequence_id)
        assert re.fullmatch("a{6,}", text) or finish == "max_output_tokens"
        if finish == "stop_token":
            assert engine.answers[sequence_id][-1] == end


def test_an_answer_that_ignores_its_end_goes_on_to_the_largest_number_of_tokens(engine):
    """Where the constraint lets it."""
    engine.add(0, constraint=constraint_of(RegexConstraint("a*")), stop_token_ids=[])
    engine.run()

    assert engine.outcome(0) == ("a" * 20, "max_output_tokens")


def test_a_stop_token_of_text_ends_an_answer_where_the_constraint_has_it(engine):
    """Even where it is the only token that is left, and too early."""
    engine.add(
        0,
        constraint=constraint_of(RegexConstraint("abc")),
        stop_token_ids=[ord("b"), END_OF_TURN],
        min_output_tokens=10,
    )
    engine.run()

    assert engine.outcome(0) == ("ab", "stop_token")


def test_a_grammar_that_gets_too_complex_fails_its_sequence_alone():
    """What it has made is told, and the neighbours go on."""
    narrow = LLParserLimits(max_lexer_states=100)
    with GrammarCompiler(lambda: load_vocabulary(narrow)) as compiler:
        engine = ConstrainedEngine(compiler=compiler, num_blocks=1024)
        engine.add(0, constraint=constraint_of(RegexConstraint("[ab]{500}")), max_output_tokens=600)
        engine.add(1, constraint=constraint_of(RegexConstraint("abc")))
        engine.add(2)
        engine.run()

    text, finish = engine.outcome(0)
    assert re.fullmatch("[ab]{50,499}", text)
    assert finish == "failed"
    assert engine.outcome(1) == ("abc", "complete")
    assert engine.answers[2] == solo_answer()


def test_a_grammar_that_cannot_be_compiled_fails_its_sequence_alone(engine):
    """The front refuses it before; should one come all the same, the engine goes on."""
    engine.add(0, constraint=Constraint("start: ("))
    engine.add(1)
    engine.run()

    assert engine.finishes[0] == ["failed"]
    assert engine.answers[1] == solo_answer()


def test_an_answer_that_was_preempted_follows_its_constraint_all_the_same():
    """Its tokens are computed again, and not chosen again."""
    constraint = constraint_of(JsonSchemaConstraint(json.dumps(SCHEMA)))
    with GrammarCompiler(load_vocabulary) as compiler:
        roomy = ConstrainedEngine(compiler=compiler, num_blocks=1024)
        narrow = ConstrainedEngine(compiler=compiler, num_blocks=60)
        for engine in (roomy, narrow):
            for sequence_id in range(4):
                prompt = b"prompt" * (1 + sequence_id)
                engine.add(sequence_id, prompt, constraint=constraint, max_output_tokens=200)
            engine.run()

    assert narrow.scheduler.stats.num_preemptions > 0
    assert narrow.answers == roomy.answers
