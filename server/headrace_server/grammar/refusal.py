"""Says in one sentence why a constraint cannot be followed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_NOUNS: Final = {
    JsonSchemaConstraint: "JSON schema",
    JsonObjectConstraint: "JSON object",
    RegexConstraint: "regular expression",
    GrammarConstraint: "grammar",
    ChoicesConstraint: "list of choices",
    ToolCallsConstraint: "list of tools",
}

# The library's words for what it lacks, and for the engine's limits.
_KEYWORDS: Final = re.compile(r"Unimplemented keys: (\[.*\])")
_FORMAT: Final = re.compile(r"Unknown format: (.*)")
_ONE_OF: Final = "oneOf constraints are not supported"
_DIGITS: Final = "Value for 'multipleOf' has too many digits"
_RANGE: Final = re.compile(r"Failed to generate regex for (integer|float) range")
_LIMIT: Final = re.compile(
    r"too (big|large|complex|many|deeply)|fuel exhausted|precomputation failed|recursion limit",
    re.IGNORECASE,
)
# A grammar is checked without a tokenizer first, of which tokens by name or number need one.
_TOKEN: Final = "no tokenizer - can't validate"
_REMOTE: Final = re.compile(r"Resource '(.*)' is not present in a registry")

_DEAD_END: Final = "NoExtension"

# The library follows bounds of 18 digits, and not all of 19.
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_LEAST_LARGE_BOUND: Final = 10**18 - 100  # as near to 10**18 as floats come

# Where the library quotes a pattern, with what is wrong with it in a line of its own.
_REGEX_ERROR: Final = re.compile(r"^error: (.*)$", re.MULTILINE)
_REGEX_QUOTE: Final = re.compile(r'invalid regex ".*" \(in regex\): ', re.DOTALL)
_PLACE: Final = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")

_MAX_REASON_CHARACTERS: Final = 300


class ConstraintRefusedError(Exception):
    """The constraint cannot be followed; the message is one sentence for the caller."""


def invalid(spec: ConstraintSpec, reason: str) -> str:
    """The sentence about a malformed constraint."""
    return f"The {_NOUNS[type(spec)]} cannot be used: {reason}."


def too_complex(spec: ConstraintSpec) -> str:
    """The sentence about a constraint that is over the limits of the engine."""
    return f"The {_NOUNS[type(spec)]} is too complex to follow; simplify it."


def too_slow(spec: ConstraintSpec) -> str:
    """The sentence about a constraint that takes longer than anyone waits."""
    return f"The {_NOUNS[type(spec)]} takes too long to compile; simplify it."


def explain(spec: ConstraintSpec, error: str) -> str:
    """Turn the library's words for an error into one sentence."""
    if keywords := _KEYWORDS.search(error):
        return unsupported_keyword(spec, json.loads(keywords.group(1))[0])
    if unknown := _FORMAT.search(error):
        name = _shorten(unknown.group(1))
        place = _place(spec, lambda schema: schema.get("format") == name)
        return _unsupported(spec, f'the format "{name}"{place}')
    if _ONE_OF in error:
        place = _place(spec, lambda schema: "oneOf" in schema)
        what = f'"oneOf"{place} with alternatives that are not plainly exclusive'
        return _unsupported(spec, what, "use anyOf")
    if _RANGE.search(error):
        what = f"a bound of more than 18 digits{_place(spec, _has_large_bound)}"
        return _unsupported(spec, what)
    if error.startswith(_DIGITS):
        place = _place(spec, lambda schema: "multipleOf" in schema)
        return _unsupported(spec, f'"multipleOf"{place} with too many digits')
    if remote := _REMOTE.search(error):
        return _unsupported(spec, f'another document, "{_shorten(remote.group(1))}"')
    if _LIMIT.search(error):
        return too_complex(spec)
    if error.startswith(_DEAD_END):
        return invalid(spec, "no text matches it")
    return invalid(spec, _reason(spec, error))


def explain_warnings(spec: ConstraintSpec, warnings: Sequence[str]) -> str | None:
    """Return one sentence where a part of a constraint would be ignored, or is not for callers."""
    for warning in warnings:
        if warning.startswith(_TOKEN):
            return _unsupported(spec, "tokens by name or number", "write their text in quotes")
        if _KEYWORDS.search(warning) or _FORMAT.search(warning) or _ONE_OF in warning:
            return explain(spec, warning)
    return None


def unsupported_keyword(spec: ConstraintSpec, keyword: str) -> str:
    """The sentence about a keyword of JSON schemas that the engine cannot follow."""
    return _unsupported(spec, f'"{keyword}"{_place(spec, lambda schema: keyword in schema)}')


def _unsupported(spec: ConstraintSpec, what: str, instead: str = "leave it out") -> str:
    return f"The {_NOUNS[type(spec)]} uses {what}, which is not supported; {instead}."


def _place(spec: ConstraintSpec, predicate: Callable[[dict[str, Any]], bool]) -> str:
    if not isinstance(spec, JsonSchemaConstraint):
        return ""
    place = find_schema(json.loads(spec.schema_json), predicate)
    return "" if place is None else f" at {_shorten(place)}"


def _has_large_bound(schema: dict[str, Any]) -> bool:
    bounds = [schema[name] for name in _BOUNDS if name in schema]
    return any(isinstance(each, int | float) and abs(each) >= _LEAST_LARGE_BOUND for each in bounds)


def _reason(spec: ConstraintSpec, error: str) -> str:
    """The line that says what is wrong, with its place where the caller wrote the lines."""
    place = _PLACE.match(error)
    rest = error[place.end() :] if place else error
    regex_error = _REGEX_ERROR.search(rest)
    reason = regex_error.group(1) if regex_error else _REGEX_QUOTE.sub("", rest).split("\n")[0]
    reason = _shorten(reason.removesuffix("<non-verbose/>").strip().rstrip("."))
    if place and isinstance(spec, GrammarConstraint):
        reason = f"line {place.group(1)}, column {place.group(2)}: {reason}"
    return reason


def _shorten(text: str) -> str:
    if len(text) <= _MAX_REASON_CHARACTERS:
        return text
    return text[: _MAX_REASON_CHARACTERS - 1] + "…"
