"""Answers of the embedded default model under constraints."""

import json
import re
from functools import partial
from pathlib import Path

import jsonschema
import pytest

from headrace_server.engine.block_pool import BlockPool
from headrace_server.engine.constraints import GrammarCompiler
from headrace_server.engine.grammar_vocabulary import GrammarVocabulary
from headrace_server.engine.limits import choose_limits
from headrace_server.engine.scheduler import Scheduler
from headrace_server.engine.settings import EngineSettings
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)
from tests.server.engine.following import constraint_of
from tests.server.engine.stepped_engine import add_sequence

pytestmark = pytest.mark.model

END_OF_TEXT = 2

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "country": {"type": "string", "maxLength": 30},
        "is_capital": {"type": "boolean"},
        "population": {"type": "integer", "minimum": 1000, "maximum": 40_000_000},
        "rivers": {"type": "array", "items": {"type": "string", "maxLength": 20}, "maxItems": 2},
    },
    "required": ["city", "country", "is_capital", "population", "rivers"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer(default_runner):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(default_runner.description.directory)


@pytest.fixture(scope="module")
def answer(default_runner, tokenizer):
    """Asks a question under several constraints at once; returns texts and finishes."""
    model = default_runner.description
    load = partial(GrammarVocabulary.load, Path(model.directory), model.vocabulary_size)

    def answer(question, *specs, **options):
        messages = [{"role": "user", "content": question}]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
        values = {"max_output_tokens": 200, "stop_token_ids": [END_OF_TEXT]} | options
        scheduler = Scheduler(
            choose_limits(EngineSettings(), model),
            BlockPool(model.num_blocks, model.block_size),
            compiler,
        )
        for sequence_id, spec in enumerate(specs):
            constraint = constraint_of(spec)
            scheduler.add(add_sequence(sequence_id, prompt, constraint=constraint, **values))
        answers = [[] for _ in specs]
        finishes = [None for _ in specs]
        while scheduler.has_work:
            step = scheduler.schedule()
            if step.rows:
                scheduler.commit(step, default_runner.forward(step.rows))
            for output in scheduler.take_outputs():
                answers[output.sequence_id] += output.token_ids
                finishes[output.sequence_id] = output.finish
        return [tokenizer.decode(ids, skip_special_tokens=True) for ids in answers], finishes

    with GrammarCompiler(load) as compiler:
        yield answer


def test_a_greedy_answer_is_what_its_schema_describes(answer):
    """It parses, it is valid, it says what was asked, and it ends by itself."""
    question = "Describe the city of Paris, the capital of France, as JSON."
    [text], finishes = answer(question, JsonSchemaConstraint(json.dumps(SCHEMA)))
    description = json.loads(text)
    jsonschema.validate(description, SCHEMA)
    assert description["city"] == "Paris"
    assert finishes == ["complete"]


def test_answers_of_all_kinds_in_one_batch(answer):
    """Each follows its own constraint, also where it is drawn at random."""
    specs = (
        JsonSchemaConstraint(json.dumps({"type": "array", "items": {"type": "integer"}})),
        RegexConstraint(r"[A-Z][a-z]{2,8} is the capital of [A-Z][a-z]{2,10}\."),
        ChoicesConstraint(("Berlin", "Paris", "Rome")),
    )
    question = "What is the capital of France?"
    texts, finishes = answer(question, *specs, temperature=1.0, seed=1, max_output_tokens=100)
    numbers, sentence, city = texts
    assert finishes == ["complete"] * 3
    assert all(isinstance(number, int) for number in json.loads(numbers))
    assert re.fullmatch(specs[1].pattern, sentence)
    assert city in specs[2].choices
