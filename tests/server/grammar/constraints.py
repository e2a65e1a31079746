"""Constraints that tests check and follow."""

import json

from headrace_server.grammar.spec import (
    GrammarConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)


def json_schema(schema):
    return JsonSchemaConstraint(json.dumps(schema))


# Takes minutes to compile.
SLOW = json_schema({"type": "integer", "multipleOf": 9_999_991})

# Needs a deep stack.
DEEP = json_schema(
    {
        "$defs": {
            "0": {"type": "null"},
            **{
                str(i + 1): {"type": "array", "items": {"$ref": f"#/$defs/{i}"}} for i in range(800)
            },
        },
        "$ref": "#/$defs/800",
    }
)

# Doubles with each line.
LARGE = GrammarConstraint(
    "\n".join(["start: T0", *(f"T{i}: T{i + 1} T{i + 1}" for i in range(30)), 'T30: "a"'])
)

BOMBS = {
    "slow": SLOW,
    "deep": DEEP,
    "large": LARGE,
    "repetition": RegexConstraint(r"(\p{L}*\d)?" * 4000),
}
