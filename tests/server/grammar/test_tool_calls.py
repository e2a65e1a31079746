"""Whatever a model chooses, an answer that must be calls is a list of sound calls."""

import json
import random

import jsonschema
import pytest
import tokenizers

from headrace_server.engine.constraints import GrammarCompiler
from headrace_server.engine.simulated_vocabulary import END_OF_TURN
from headrace_server.grammar.check import check
from headrace_server.grammar.messages import Sound, Unsound
from headrace_server.grammar.spec import ToolCallsConstraint, ToolSignature
from headrace_server.grammar.tool_calls import MAX_CALLS
from tests.server.engine.following import compiled, walk
from tests.server.grammar.conftest import SIMULATED_MODEL

NUM_WALKS = 8
CLOSING = ['"', "]", "}"]

SCHEMAS = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/name"}, "days": {"type": "integer"}},
        "required": ["city"],
        "$defs": {"name": {"type": "string", "maxLength": 5}},
    },
    "now": {},
    "open-door_1": {
        "properties": {"name": {"enum": ['a"b', "{}", "\\n"]}, "wide": {"type": "boolean"}},
        "required": ["wide"],
    },
    "free": {"type": "object", "maxProperties": 2},
    "unlisted": {"properties": {"a": {"type": "null"}}, "required": ["a", "b"]},
    "either": {
        "anyOf": [
            {"properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False},
            {"properties": {}, "additionalProperties": False},
        ]
    },
}


def spec_of(*names, max_calls=None):
    tools = (ToolSignature(name, json.dumps(SCHEMAS[name])) for name in names)
    return ToolCallsConstraint(tuple(tools), max_calls)


@pytest.fixture(scope="module")
def answers(vocabulary):
    """Answers under a constraint, of a model that says anything."""
    tokenizer = tokenizers.Tokenizer.from_file(str(SIMULATED_MODEL / "tokenizer.json"))
    closing = [i for text in CLOSING if (i := tokenizer.token_to_id(text)) is not None]

    def answers(spec):
        assert isinstance(check(spec, vocabulary), Sound)
        for seed in range(NUM_WALKS):
            state = compiled(compiler, spec, [END_OF_TURN])
            ids = walk(state, [END_OF_TURN], random.Random(seed), closing_token_ids=closing)
            yield json.loads(tokenizer.decode(ids, skip_special_tokens=True))

    with GrammarCompiler(lambda: vocabulary) as compiler:
        yield answers


@pytest.mark.parametrize("max_calls", [None, 1])
def test_every_answer_is_a_list_of_calls(answers, max_calls):
    """Of the tools that there are, with arguments as their schemas describe them."""
    for calls in answers(spec_of(*SCHEMAS, max_calls=max_calls)):
        assert 1 <= len(calls) <= (max_calls or MAX_CALLS)
        for call in calls:
            assert list(call) == ["name", "arguments"]
            assert isinstance(call["arguments"], dict)
            jsonschema.validate(call["arguments"], SCHEMAS[call["name"]])


def test_what_a_schema_asks_for_without_naming_it_is_made(answers):
    """Only a whole list of properties is closed."""
    for [call] in answers(spec_of("unlisted", max_calls=1)):
        assert {"a", "b"} <= set(call["arguments"])
    assert any(call["arguments"] for [call] in answers(spec_of("free", max_calls=1)))


def test_arguments_that_a_schema_does_not_name_are_not_made(answers):
    """A plain list of properties is all that a function has."""
    for name, known in (("get_weather", {"city", "days"}), ("now", set())):
        for [call] in answers(spec_of(name, max_calls=1)):
            assert set(call["arguments"]) <= known


@pytest.mark.parametrize(
    ("parameters_json", "words"),
    [
        ('{"properties": {"a": {"uniqueItems": true}}}', 'uses "uniqueItems" at #/properties/a, '),
        ('{"properties": {"a": {"format": "iban"}}}', 'uses the format "iban" at #/properties/a, '),
        ('{"x-guidance": {}}', 'uses "x-guidance" at #, which is not supported'),
        ('{"properties": {"a": {"$ref": "http://a.b/c"}}}', "uses another document, "),
        ("nope", "cannot be used: it is not valid JSON at line 1, column 1"),
        ("[" * 99 + "]" * 99, "cannot be used: it must be a JSON object"),
        (f'{{"a": {"[" * 99 + "]" * 99}}}', "nested more than"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_tool_and_place(vocabulary, parameters_json, words):
    """The other tools are sound."""
    tools = (ToolSignature("now", ""), ToolSignature("bad", parameters_json))
    verdict = check(ToolCallsConstraint(tools, None), vocabulary)
    assert isinstance(verdict, Unsound)
    assert verdict.message.startswith('Tool "bad": The JSON schema ')
    assert words in verdict.message
