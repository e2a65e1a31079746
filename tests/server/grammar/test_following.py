"""Whatever a model chooses among the tokens that are allowed, the output matches its constraint."""

import json
import random
import re
from dataclasses import dataclass

import jsonschema
import pytest
import tokenizers

from headrace_server.engine.constraints import GrammarCompiler
from headrace_server.engine.grammar_vocabulary import GrammarVocabulary
from headrace_server.engine.simulated_vocabulary import END_OF_TURN
from headrace_server.grammar.check import check
from headrace_server.grammar.messages import Sound
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)
from tests.server.engine.following import compiled, walk
from tests.server.grammar.conftest import SIMULATED_MODEL, SIMULATED_VOCABULARY_SIZE

NUM_WALKS = 6
CLOSING = ['"', "]", "}", '"]', '"}', "]}", "@", "."]


@dataclass(frozen=True)
class Model:
    """A model's tokens, and a compiler for them."""

    vocabulary: GrammarVocabulary
    compiler: GrammarCompiler
    tokenizer: tokenizers.Tokenizer
    end_token_ids: list[int]

    @property
    def closing_token_ids(self):
        """The tokens that bring what has grown long to its end."""
        ids = (self.tokenizer.token_to_id(text) for text in CLOSING)
        return [token_id for token_id in ids if token_id is not None]


def open_model(directory, vocabulary_size, end_token_ids):
    vocabulary = GrammarVocabulary.load(directory, vocabulary_size)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    return Model(vocabulary, GrammarCompiler(lambda: vocabulary), tokenizer, end_token_ids)


@pytest.fixture(
    scope="module", params=["simulated", pytest.param("default", marks=pytest.mark.model)]
)
def model(request):
    if request.param == "simulated":
        model = open_model(SIMULATED_MODEL, SIMULATED_VOCABULARY_SIZE, [END_OF_TURN])
    else:
        from headrace_server.models.resolve import resolve_model

        directory = resolve_model("default", lambda phase, fraction=None: None)
        model = open_model(directory, 49152, [2])
    with model.compiler:
        yield model


def walks(model, spec):
    """Texts of outputs that end as soon as they may after some tokens."""
    assert isinstance(check(spec, model.vocabulary), Sound)
    for seed in range(NUM_WALKS):
        token_ids = walk(
            compiled(model.compiler, spec, model.end_token_ids),
            model.end_token_ids,
            random.Random(seed),
            closing_token_ids=model.closing_token_ids,
        )
        yield model.tokenizer.decode(token_ids, skip_special_tokens=False)


SCHEMAS = {
    "anything": {},
    "object": {"type": "object"},
    "array": {"type": "array"},
    "string": {"type": "string"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "types": {"type": ["integer", "null", "boolean"]},
    "enum": {"enum": ["a", "ab", 'q"uote', "\n", "日本", 1, 1.5, None, True, [1, {"a": 2}]]},
    "const": {"const": {"a": [1, "<|im_end|>"], "b": {}}},
    "integer bounds": {"type": "integer", "minimum": -17, "exclusiveMaximum": 1203},
    "number bounds": {"type": "number", "exclusiveMinimum": -0.5, "maximum": 12.25},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 0},
    "length": {"type": "string", "minLength": 3, "maxLength": 9},
    "pattern": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+(-x)?$"},
    "pattern inside": {"type": "string", "pattern": "b+c", "maxLength": 50},
    "items": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    "tuple": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"enum": ["x"]}],
        "items": {"type": "null"},
        "minItems": 1,
        "maxItems": 5,
    },
    "nested arrays": {
        "type": "array",
        "items": {
            "type": "array",
            "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
            "maxItems": 3,
        },
        "minItems": 1,
    },
    "properties": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        },
        "required": ["name", "tags"],
        "additionalProperties": False,
    },
    "additional": {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": {"type": "array", "items": {"type": "null"}},
    },
    "patterns of names": {
        "type": "object",
        "patternProperties": {"^n_[a-z]+$": {"type": "number"}, "^s_": {"type": "boolean"}},
        "additionalProperties": False,
    },
    "map": {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "minProperties": 1,
    },
    "any of": {
        "anyOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 3},
            {"type": "string", "maxLength": 4},
        ]
    },
    "one of": {
        "oneOf": [
            {"type": "integer", "minimum": 10},
            {"type": "string", "enum": ["low"]},
        ]
    },
    "all of": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"b": {"minLength": 1}}, "required": ["b"]},
        ]
    },
    "definitions": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "value": {"$ref": "#/$defs/value"},
                    "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                },
                "required": ["value"],
                "additionalProperties": False,
            },
            "value": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "$ref": "#/$defs/node",
    },
    "recursive": {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"],
        "additionalProperties": False,
    },
    "draft 7": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"id": {"type": "integer", "minimum": 1}},
        "type": "object",
        "properties": {"id": {"$ref": "#/definitions/id"}, "on": {"type": "boolean"}},
        "required": ["id", "on"],
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_json_is_what_its_schema_describes(name, model):
    """It parses, it is valid, and it has no more white space than single spaces."""
    schema = SCHEMAS[name]
    for text in walks(model, JsonSchemaConstraint(json.dumps(schema))):
        jsonschema.validate(json.loads(text), schema)
        assert not re.search(r"\s{2}|[\n\r\t]|^\s|\s$", without_strings(text)), text


def test_a_json_object_is_any_object(model):
    """Nested as it comes."""
    for text in walks(model, JsonObjectConstraint()):
        assert isinstance(json.loads(text), dict)
        assert not re.search(r"\s{2}|[\n\r\t]|^\s|\s$", without_strings(text)), text


FORMATS = {
    "date": r"\d{4}-\d\d-\d\d",
    "time": r"\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)",
    "date-time": r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)",
    "ipv4": r"(\d{1,3}\.){3}\d{1,3}",
    "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "email": r"[^@]+@[^@]+",
}


@pytest.mark.parametrize("name", FORMATS)
def test_strings_have_their_format(name, model):
    """A format is followed, and not only noted."""
    schema = {"type": "string", "format": name}
    for text in walks(model, JsonSchemaConstraint(json.dumps(schema))):
        assert re.fullmatch(FORMATS[name], json.loads(text)), text


PATTERNS = [
    "a",
    "^abc$",
    "a|bc|bcd",
    "[a-c]{3,5}",
    "(foo|ba(r|z))+",
    r"\d{3}-\d{4}",
    r"[a-z]+@[a-z]+\.(com|org)",
    r"[^a-z\n]{2,6}",
    "x.y",
    "(?i)hello",
    "(?s)a.{1,4}b",
    'a/b\\\\"c"\n\\n',
    "日本(語)?",
    "😀{2}",
    r"[\u00e0-\u00ff]{1,3}",
    r"-?(0|[1-9][0-9]*)(\.[0-9]+)?",
    "(a?b?c?){1,3}",
    "a*?b",
    "<\\|im_end\\|>",
    r"https?://[a-z]+(\.[a-z]{2,3})+(/[a-z0-9]*)*",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_whole_output_matches_its_pattern(pattern, model):
    """From its first character to its last."""
    for text in walks(model, RegexConstraint(pattern)):
        assert re.fullmatch(pattern, text), text


GRAMMARS = {
    'start: "yes" | "no"': r"yes|no",
    'start: item ("," item)* \nitem: /[a-z]{1,3}/': r"[a-z]{1,3}(,[a-z]{1,3})*",
    'start: "(" start ")" | "x"': r"\(*x\)*",
    'start: INT "+" INT "=" INT\nINT: /[1-9][0-9]?/': r"[1-9]\d?\+[1-9]\d?=[1-9]\d?",
    "%import common.INT\nstart: INT": r"\d+",
    'start: "data: " body "!"\nbody: %json {"enum": [1, "a"]}': r'data: (1|"a")!',
    'start: "<|im_start|>" /[ab]/': r"<\|im_start\|>[ab]",
}


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_the_whole_output_is_of_its_grammar(grammar, model):
    """Of the rule start."""
    for text in walks(model, GrammarConstraint(grammar)):
        assert re.fullmatch(GRAMMARS[grammar], text), text


CHOICES = [
    ("yes", "no"),
    ("a", "ab", "abc", "b"),
    ('"', "\\", "/", "\n", "\t", "\x00", "{", "%", "|", "'"),
    ("new\nline", 'quo"te', "back\\slash", "\\n", "/re/", "~", '"a" | "b"', "<[5]>"),
    ("<|im_end|>", "<|im_start|>assistant\n"),
    (" leading", "trailing ", "  "),
    ("日本", "naïve", "😀", "e\u0301", "\u2028"),
    ("same", "same"),
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_the_output_is_one_of_its_choices_to_the_letter(choices, model):
    """Nothing in them has a meaning."""
    assert set(walks(model, ChoicesConstraint(choices))) <= set(choices)


def without_strings(text):
    """JSON without what is inside of its strings."""
    return re.sub(r'"(\\.|[^"\\])*"', '""', text)
