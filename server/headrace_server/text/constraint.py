"""The constraint of a request: who checks it, and what its field is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace_server.grammar.spec import (
    ChoicesConstraint,
    GrammarConstraint,
    JsonObjectConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
    ToolCallsConstraint,
)

if TYPE_CHECKING:
    from pathlib import Path

    from headrace_server.engine.messages import Constraint
    from headrace_server.grammar.spec import ConstraintSpec


class ConstraintChecker(Protocol):
    """Tells sound constraints from others."""

    def use_model(self, directory: Path, vocabulary_size: int) -> None:
        """Check for this model from now on; see `BackendModel`."""

    async def compile(self, spec: ConstraintSpec, field: str, caller: str = "") -> Constraint:
        """Return what the engine follows.

        Args:
            spec: the constraint as it came.
            field: its path in the request, for the error.
            caller: takes turns with the others.

        Raises:
            InvalidConstraintError: it cannot be followed.
            OverloadedError: too many wait for a check.
        """


def constraint_field(spec: ConstraintSpec) -> str:
    """Return the path of a constraint in a request."""
    match spec:
        case JsonSchemaConstraint():
            return "constraint.json_schema"
        case JsonObjectConstraint():
            return "constraint.json_object"
        case RegexConstraint():
            return "constraint.regex"
        case GrammarConstraint():
            return "constraint.grammar"
        case ChoicesConstraint():
            return "constraint.choices.texts"
        case ToolCallsConstraint():
            return "chat.tools"
