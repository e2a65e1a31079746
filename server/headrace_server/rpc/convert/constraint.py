"""The form that an answer must have. What can be told only by reading it is checked later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_server.errors import InvalidFieldError
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)
from headrace_server.rpc.convert.checks import require

if TYPE_CHECKING:
    from headrace.v1 import constraint_pb2
    from headrace_server.grammar.spec import ConstraintSpec


def to_constraint(message: constraint_pb2.Constraint) -> ConstraintSpec:
    """Turn a constraint that is set into the front's own type.

    Raises:
        InvalidFieldError: it has no form.
    """
    match message.WhichOneof("form"):
        case "json_schema":
            return JsonSchemaConstraint(message.json_schema)
        case "json_object":
            require(message.json_object, "constraint.json_object", "must be true where it is set")
            return JsonObjectConstraint()
        case "regex":
            return RegexConstraint(message.regex)
        case "grammar":
            return GrammarConstraint(message.grammar)
        case "choices":
            return ChoicesConstraint(tuple(message.choices.texts))
        case _:
            raise InvalidFieldError(
                "constraint",
                "constraint must have one of json_schema, json_object, regex, grammar and choices.",
            )
