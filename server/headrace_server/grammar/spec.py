"""What a request can ask its output to match, as it came: sizes and soundness are unchecked."""

from __future__ import annotations

import msgspec


class JsonSchemaConstraint(msgspec.Struct, frozen=True, tag="json_schema"):
    """One JSON value that a schema describes, with at most single spaces after ``,`` and ``:``.

    Args:
        schema_json: the schema (draft 2020-12) as JSON text; properties come in its order.
    """

    schema_json: str


class JsonObjectConstraint(msgspec.Struct, frozen=True, tag="json_object"):
    """Any JSON object, with at most single spaces after ``,`` and ``:``."""


class RegexConstraint(msgspec.Struct, frozen=True, tag="regex"):
    r"""A text that the whole of a regular expression matches.

    Args:
        pattern: in the syntax of Rust's regex crate, without look-around, back-references and
            word boundaries; ``\d`` is 0 to 9.
    """

    pattern: str


class GrammarConstraint(msgspec.Struct, frozen=True, tag="grammar"):
    """A text of a context-free grammar.

    Args:
        grammar: in llguidance's variant of the Lark syntax; the rule ``start`` is the whole text.
    """

    grammar: str


class ChoicesConstraint(msgspec.Struct, frozen=True, tag="choices"):
    """One of some texts, to the letter.

    Args:
        choices: the texts.
    """

    choices: tuple[str, ...]


class ToolSignature(msgspec.Struct, frozen=True):
    """A tool that can be called.

    Args:
        name: of letters, digits, underscores and hyphens.
        parameters_json: the schema of its arguments as JSON text; empty for none.
    """

    name: str
    parameters_json: str


class ToolCallsConstraint(msgspec.Struct, frozen=True, tag="tool_calls"):
    """A JSON array of calls, each an object with ``name`` and ``arguments`` in this order.

    Args:
        tools: the tools that can be called, at least one.
        max_calls: the most calls; None leaves it to the server.
    """

    tools: tuple[ToolSignature, ...]
    max_calls: int | None


ConstraintSpec = (
    JsonSchemaConstraint
    | JsonObjectConstraint
    | RegexConstraint
    | GrammarConstraint
    | ChoicesConstraint
    | ToolCallsConstraint
)
