"""The grammar of calls of tools, and the schemas of their arguments."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace_server.grammar.spec import ToolCallsConstraint

# Where an answer may have several calls: a model that has nothing to say could go on for ever.
MAX_CALLS: Final = 16

# Keywords by which a schema may speak of other properties than those that it lists.
_INDIRECT: Final = frozenset(
    (
        *("$ref", "allOf", "anyOf", "oneOf", "if", "not", "patternProperties"),
        *("dependentSchemas", "dependentRequired", "unevaluatedProperties"),
        *("additionalProperties", "propertyNames", "minProperties"),
    )
)


def arguments_schema(parameters_json: str) -> str:
    """Return the schema that arguments must have, as JSON text.

    They are an object. Properties that a schema does not name are left out where it plainly lists
    those that it has: nobody could use them.

    Args:
        parameters_json: a tool's own schema; one that is no JSON object is returned as it is, to
            be refused. Empty where there are no arguments.
    """
    try:
        schema = json.loads(parameters_json or "{}")
    except (ValueError, RecursionError):
        return parameters_json
    if not isinstance(schema, dict):
        return parameters_json
    return json.dumps(_object_schema(schema), ensure_ascii=False)


def tool_calls_grammar(spec: ToolCallsConstraint, options: Mapping[str, Any]) -> str:
    """Return the grammar of a list of calls in the library's variant of the Lark syntax.

    Args:
        spec: whose schemas can be followed, each by itself.
        options: how the library writes JSON.
    """
    max_calls = MAX_CALLS if spec.max_calls is None else spec.max_calls
    names = [f"call{index}" for index in range(len(spec.tools))]
    others = f"(/, ?/ call){{0,{max_calls - 1}}} " if max_calls > 1 else ""
    rules = [
        f'start: "[" call {others}"]"',
        f"call: {' | '.join(names)}",
    ]
    for index, tool in enumerate(spec.tools):
        opening = json.dumps(f'{{"name": "{tool.name}", "arguments": ')
        schema = json.loads(arguments_schema(tool.parameters_json)) | {"x-guidance": options}
        rules.append(f'call{index}: {opening} arguments{index} "}}"')
        rules.append(f"arguments{index}: %json {json.dumps(schema)}")
    return "\n".join(rules)


def _object_schema(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type", "object")
    if isinstance(kind, list) and "object" in kind:
        kind = "object"
    closed = {"additionalProperties": False} if _lists_properties(schema) else {}
    return schema | closed | {"type": kind}


def _lists_properties(schema: dict[str, Any]) -> bool:
    """Whether a schema names all the properties that it is about."""
    if not schema:  # a function without arguments
        return True
    properties, required = schema.get("properties"), schema.get("required", [])
    return (
        isinstance(properties, dict)
        and isinstance(required, list)
        and all(name in properties for name in required)
        and not _INDIRECT & schema.keys()
    )
