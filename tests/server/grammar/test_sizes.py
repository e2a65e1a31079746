"""What is too large or empty is refused before anything reads it."""

import pytest

from headrace_server.grammar.sizes import MAX_CONSTRAINT_BYTES, MAX_NUM_CHOICES, size_problem
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)

LONG = "x" * MAX_CONSTRAINT_BYTES


@pytest.mark.parametrize(
    "spec",
    [
        JsonSchemaConstraint(LONG),
        JsonObjectConstraint(),
        RegexConstraint(LONG),
        GrammarConstraint(LONG),
        ChoicesConstraint((LONG[1:], "y")),
        ChoicesConstraint(tuple(str(i) for i in range(MAX_NUM_CHOICES))),
    ],
)
def test_what_is_just_small_enough_is_read(spec):
    """The limits themselves are allowed."""
    assert size_problem(spec) is None


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            JsonSchemaConstraint(LONG + "x"),
            "The JSON schema has 65537 bytes; at most 65536 are possible.",
        ),
        (
            RegexConstraint("é" + LONG[1:]),
            "The regular expression has 65537 bytes; at most 65536 are possible.",
        ),
        (
            GrammarConstraint(LONG + "x"),
            "The grammar has 65537 bytes; at most 65536 are possible.",
        ),
        (
            ChoicesConstraint((LONG, "y")),
            "The choices have 65537 bytes; at most 65536 are possible.",
        ),
        (ChoicesConstraint(()), "There are no choices; give at least one."),
        (
            ChoicesConstraint(("a", "")),
            "Choice 1 is empty; each needs at least one character.",
        ),
        (
            ChoicesConstraint(("a",) * (MAX_NUM_CHOICES + 1)),
            "There are 1025 choices; at most 1024 are possible.",
        ),
        (
            RegexConstraint("\ud800"),
            "The regular expression has half of a surrogate pair; send whole characters.",
        ),
    ],
)
def test_what_is_too_large_or_empty_is_told(spec, problem):
    """One sentence says what is too much."""
    assert size_problem(spec) == problem
