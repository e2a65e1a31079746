"""How large a constraint may be: told at once, before anything reads it."""

from __future__ import annotations

from typing import Final

from headrace_server.grammar.spec import (
    ChoicesConstraint,
    ConstraintSpec,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
    ToolCallsConstraint,
)

# Bytes of UTF-8 of the whole constraint. Generated schemas of large APIs have some 10 KiB.
MAX_CONSTRAINT_BYTES: Final = 64 * 1024

MAX_NUM_CHOICES: Final = 1024


def size_problem(spec: ConstraintSpec) -> str | None:
    """Return one sentence about what is too large or empty; None where nothing is."""
    match spec:
        case ChoicesConstraint(choices):
            return _choices_problem(choices) or _bytes_problem("choices have", *choices)
        case JsonSchemaConstraint(text):
            return _bytes_problem("JSON schema has", text)
        case RegexConstraint(text):
            return _bytes_problem("regular expression has", text)
        case GrammarConstraint(text):
            return _bytes_problem("grammar has", text)
        case ToolCallsConstraint(tools):
            return _bytes_problem("tools have", *(tool.parameters_json for tool in tools))
        case JsonObjectConstraint():
            return None


def _choices_problem(choices: tuple[str, ...]) -> str | None:
    if not choices:
        return "There are no choices; give at least one."
    if len(choices) > MAX_NUM_CHOICES:
        return f"There are {len(choices)} choices; at most {MAX_NUM_CHOICES} are possible."
    if "" in choices:
        return f"Choice {choices.index('')} is empty; each needs at least one character."
    return None


def _bytes_problem(what: str, *texts: str) -> str | None:
    try:
        num_bytes = sum(len(text.encode()) for text in texts)
    except UnicodeEncodeError:
        return f"The {what} half of a surrogate pair; send whole characters."
    if num_bytes > MAX_CONSTRAINT_BYTES:
        return f"The {what} {num_bytes} bytes; at most {MAX_CONSTRAINT_BYTES} are possible."
    return None
