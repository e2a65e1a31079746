"""What is sound, and in which words the rest is refused."""

import json

import pytest

from headrace_server.grammar.check import check
from headrace_server.grammar.messages import Sound, Unsound
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)
from headrace_server.grammar.translation import MAX_SCHEMA_DEPTH
from tests.server.grammar.constraints import json_schema


def nested(depth):
    """A schema whose text has `depth` levels."""
    return JsonSchemaConstraint('{"items":' * (depth - 1) + "{}" + "}" * (depth - 1))


@pytest.mark.parametrize(
    "spec",
    [
        JsonObjectConstraint(),
        JsonSchemaConstraint("true"),
        JsonSchemaConstraint("{}"),
        json_schema({"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}),
        json_schema({"title": "t", "description": "d", "default": 1, "examples": [1]}),
        json_schema({"properties": {"not": {"type": "null"}, "x-guidance": {}}}),
        json_schema({"oneOf": [{"type": "string"}, {"type": "integer"}]}),
        nested(MAX_SCHEMA_DEPTH),
        RegexConstraint("a*"),
        RegexConstraint("^a/b\n$"),
        GrammarConstraint('start: "a" start | "b"'),
        GrammarConstraint('start: "<|im_start|>"'),
        ChoicesConstraint(("a",)),
        ChoicesConstraint(('"', "\\", "\n", "/a/", "<|im_end|>", "{}")),
    ],
    ids=str,
)
def test_sound_constraints_become_grammars(spec, vocabulary):
    """A grammar is JSON that the engine's library reads."""
    verdict = check(spec, vocabulary)
    assert isinstance(verdict, Sound)
    assert len(json.loads(verdict.grammar)["grammars"]) == 1


REFUSED_SCHEMAS = [
    ({"not": {}}, 'uses "not" at #, which is not supported; leave it out.'),
    (
        {"properties": {"a/b": {"items": {"anyOf": [{}, {"uniqueItems": True}]}}}},
        'uses "uniqueItems" at #/properties/a~1b/items/anyOf/1, which is not supported; '
        "leave it out.",
    ),
    (
        {"properties": {"id": {"type": "string", "format": "iban"}}},
        'uses the format "iban" at #/properties/id, which is not supported; leave it out.',
    ),
    (
        {"items": {"oneOf": [{"type": "string"}, {"minLength": 3}]}},
        'uses "oneOf" at #/items with alternatives that are not plainly exclusive, which is not '
        "supported; use anyOf.",
    ),
    (
        {"$ref": "https://example.com/schema"},
        'uses another document, "https://example.com/schema", which is not supported; '
        "leave it out.",
    ),
    (
        {"x-guidance": {"lenient": True}, "not": {}},
        'uses "x-guidance" at #, which is not supported; leave it out.',
    ),
    (
        {"properties": {"a": {"anyOf": [{}, {"x-guidance": {"lenient": True}}]}}},
        'uses "x-guidance" at #/properties/a/anyOf/1, which is not supported; leave it out.',
    ),
    ({"$ref": "#/$defs/a"}, "cannot be used: Pointer '/$defs/a' does not exist."),
    ({"type": "objekt"}, "cannot be used: Invalid type: objekt."),
    (
        {"type": "integer", "minimum": 5, "maximum": 3},
        "cannot be used: Unsatisfiable schema: minimum (5) is greater than maximum (3).",
    ),
    (
        {"properties": {"n": {"type": "integer", "minimum": -(2**63)}}},
        "uses a bound of more than 18 digits at #/properties/n, which is not supported; "
        "leave it out.",
    ),
    (
        {"items": {"type": "integer", "multipleOf": 2**40}},
        'uses "multipleOf" at #/items with too many digits, which is not supported; leave it out.',
    ),
    ({"type": "string", "pattern": "["}, "cannot be used: unclosed character class."),
    ({"properties": 3}, "cannot be used: properties must be an object."),
    (False, "cannot be used: it must be a JSON object."),
    ([], "cannot be used: it must be a JSON object."),
    (
        {"allOf": [{"anyOf": [{"minimum": i + j} for i in range(4)]} for j in range(12)]},
        "is too complex to follow; simplify it.",
    ),
    # Its masks can be made, but its first tokens cannot be taken.
    (
        {"type": "object", "properties": {f"n{i}": {} for i in range(900)}},
        "is too complex to follow; simplify it.",
    ),
    ({"properties": {f"n{i}": {} for i in range(900)}}, "is too complex to follow; simplify it."),
]


@pytest.mark.parametrize(("schema", "words"), REFUSED_SCHEMAS, ids=[w for _, w in REFUSED_SCHEMAS])
def test_schemas_are_refused_by_what_is_wrong_and_where(schema, words, vocabulary):
    """Nothing of a schema is ignored in silence."""
    assert check(json_schema(schema), vocabulary) == Unsound(f"The JSON schema {words}")


UNSUPPORTED_KEYWORDS = [
    *("not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies"),
    *("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    *("unevaluatedProperties", "propertyNames", "$dynamicRef", "$recursiveRef"),
]


@pytest.mark.parametrize("keyword", UNSUPPORTED_KEYWORDS)
def test_each_keyword_that_cannot_be_followed_is_named(keyword, vocabulary):
    """A keyword that constrains values in the standard works or is refused by its name."""
    verdict = check(json_schema({"items": {keyword: {}}}), vocabulary)
    assert verdict == Unsound(
        f'The JSON schema uses "{keyword}" at #/items, which is not supported; leave it out.'
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a":', "cannot be used: it is not valid JSON at line 1, column 6 (Expecting value)."),
        ('{"a": "\\ud800"}', "cannot be used: unexpected end of hex escape at line 1 column 14."),
        ('{"minimum": 1e999}', "cannot be used: number out of range at line 1 column 17."),
        (
            '{"minimum": ' + "9" * 5000 + "}",
            "cannot be used: it holds a number that is too large.",
        ),
        (
            nested(MAX_SCHEMA_DEPTH + 1).schema_json,
            "cannot be used: it is nested more than 64 levels deep.",
        ),
        ("[" * 60_000, "is too complex to follow; simplify it."),
    ],
)
def test_text_that_is_no_schema_is_refused(text, words, vocabulary):
    """Broken JSON is told with its place."""
    assert check(JsonSchemaConstraint(text), vocabulary) == Unsound(f"The JSON schema {words}")


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a(", "cannot be used: unclosed group."),
        (r"(a)\1", "cannot be used: backreferences are not supported."),
        (
            "a(?=b)",
            "cannot be used: look-around, including look-ahead and look-behind, is not supported.",
        ),
        ("a^b", "cannot be used: lookarounds not supported yet; Start in regex /a^b/."),
        ("", "cannot be used: it matches no text but an empty one."),
        (r"[^\s\S]", "cannot be used: no text matches it."),
        ("(?x) a\nb", "cannot be used: line ends with the flag x are not supported."),
        ("(a{1000}){1000}", "is too complex to follow; simplify it."),
    ],
)
def test_patterns_are_refused_by_what_is_wrong(pattern, words, vocabulary):
    """A pattern that is broken or cannot be followed is told why."""
    verdict = check(RegexConstraint(pattern), vocabulary)
    assert verdict == Unsound(f"The regular expression {words}")


TOKENS = "uses tokens by name or number, which is not supported; write their text in quotes."


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        ('start: "a"\nb: "', "cannot be used: line 2, column 5: lexer error."),
        ("start: a", 'cannot be used: line 1, column 8: unknown name: "a".'),
        ('a: "a"', "cannot be used: no start rule found."),
        ('start: ""', "cannot be used: it matches no text but an empty one."),
        ('start: "a" <|im_end|>', TOKENS),
        ('start: "a" <[5]>', TOKENS),
        ("start: <[*]>", TOKENS),
        (
            'start: %json {"not": {}}',
            'uses "not", which is not supported; leave it out.',
        ),
        (
            'start: %json {"not": {}, "x-guidance": {"lenient": true}}',
            'uses "not", which is not supported; leave it out.',
        ),
        (
            '{"grammars": [{"json_schema": {}}]}',
            "cannot be used: line 1, column 1: expecting rule, token or statement "
            "(at \"{\" ('{')).",
        ),
    ],
)
def test_grammars_are_refused_by_what_is_wrong_and_where(grammar, words, vocabulary):
    """A grammar is told its line; control tokens are for nobody to ask for."""
    assert check(GrammarConstraint(grammar), vocabulary) == Unsound(f"The grammar {words}")
