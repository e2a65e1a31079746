"""Turns constraints into the grammars that the engine's library reads."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from llguidance import LLMatcher, regex_to_lark

from headrace_server.grammar.refusal import (
    ConstraintRefusedError,
    invalid,
    too_complex,
    unsupported_keyword,
)
from headrace_server.grammar.schema_walk import find_schema
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    ConstraintSpec,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
    ToolCallsConstraint,
)
from headrace_server.grammar.tool_calls import tool_calls_grammar

if TYPE_CHECKING:
    from collections.abc import Iterable

# Levels of objects and arrays in the text of a schema.
MAX_SCHEMA_DEPTH: Final = 64

# The key under which a schema may hold options of the library's own; callers have no use of them.
# It reads them at the root only, and passes over them elsewhere.
_OPTIONS_KEY: Final = "x-guidance"

# With more white space a model that has nothing to say could go on for ever.
_JSON_OPTIONS: Final[Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ?",
    "key_separator": ": ?",
}

# In a pattern with this flag a line end is no character, which the library makes it.
_EXTENDED_FLAG: Final = re.compile(r"\(\?[a-zA-Z]*x")


def to_grammar(spec: ConstraintSpec) -> str:
    """Return a constraint in the library's JSON form; it may not compile.

    Raises:
        ConstraintRefusedError: the constraint is malformed.
    """
    match spec:
        case JsonSchemaConstraint():
            return _json_grammar(_schema(spec))
        case JsonObjectConstraint():
            return _json_grammar('{"type": "object"}')
        case RegexConstraint(pattern):
            if "\n" in pattern and _EXTENDED_FLAG.search(pattern):
                _refuse(invalid(spec, "line ends with the flag x are not supported"))
            # Digits are 0 to 9, as in JSON schemas: no reader of numbers takes the others.
            return _lark_grammar(f"start: /{regex_to_lark(pattern, use_ascii='d')}/")
        case GrammarConstraint(grammar):
            return _lark_grammar(grammar)
        case ChoicesConstraint(choices):
            alternatives = " | ".join(json.dumps(choice) for choice in choices)
            return _lark_grammar(f"start: CHOICE\nCHOICE: {alternatives}")
        case ToolCallsConstraint():
            return _lark_grammar(tool_calls_grammar(spec, _JSON_OPTIONS))


def _json_grammar(schema_json: str) -> str:
    return LLMatcher.grammar_from_json_schema(schema_json, overrides=_JSON_OPTIONS)


def _lark_grammar(text: str) -> str:
    # The library would take a bare text that starts with a brace for its JSON form.
    return json.dumps({"grammars": [{"lark_grammar": text}]})


def _schema(spec: JsonSchemaConstraint) -> str:
    """Check what can be told without the library, and return the schema as an object."""
    try:
        schema = json.loads(spec.schema_json)
    except json.JSONDecodeError as error:
        where = f"at line {error.lineno}, column {error.colno}"
        _refuse(invalid(spec, f"it is not valid JSON {where} ({error.msg})"))
    except RecursionError:
        _refuse(too_complex(spec))
    except ValueError:  # a number of thousands of digits
        _refuse(invalid(spec, "it holds a number that is too large"))
    if schema is True:
        return "{}"
    if not isinstance(schema, dict):
        _refuse(invalid(spec, "it must be a JSON object"))
    if _depth(schema) > MAX_SCHEMA_DEPTH:
        _refuse(invalid(spec, f"it is nested more than {MAX_SCHEMA_DEPTH} levels deep"))
    if find_schema(schema, lambda each: _OPTIONS_KEY in each) is not None:
        _refuse(unsupported_keyword(spec, _OPTIONS_KEY))
    return spec.schema_json


def _depth(value: object) -> int:
    """Levels of objects and arrays."""
    depth = 0
    level = [value]
    while level := [each for each in level if isinstance(each, dict | list)]:
        depth += 1
        level = [each for container in level for each in _children(container)]
    return depth


def _children(container: dict[str, Any] | list[Any]) -> Iterable[object]:
    return container.values() if isinstance(container, dict) else container


def _refuse(message: str) -> NoReturn:
    raise ConstraintRefusedError(message)
