"""JSON schema of the body of /v1/responses, from the table of its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.openapi.field_descriptions import FIELD_DESCRIPTIONS
from headrace_gateway.openapi.field_schemas import field_schema, or_null
from headrace_gateway.responses.fields import (
    RESPONSE_FIELDS,
    RESPONSE_IGNORED_FIELDS,
    RESPONSE_NEUTRAL_VALUES,
    STORED_FIELDS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Schema = Mapping[str, object]

RESPONSE_DESCRIPTIONS: Mapping[str, str] = {
    "input": "a string, or a list of items",
    "instructions": "a system message before the input",
    "max_output_tokens": "at least 0; cut to the room that the input leaves",
    "text": (
        '`{"format": {"type": "text"}}`, `"json_object"`, or `"json_schema"` with a `name` and a '
        "`schema`, followed to the letter with `strict` and without"
    ),
    "tools": 'at most 128 of `{"type": "function", "name", "description", "parameters"}`',
    "tool_choice": '`"auto"`, `"none"`, `"required"`, or `{"type": "function", "name": …}`',
    "include": (
        "a list of strings; `message.output_text.logprobs` tells how likely each token was, "
        "others tell nothing"
    ),
    "top_logprobs": (
        "0 to 20 of the most likely tokens beside each, with `message.output_text.logprobs` only"
    ),
    "reasoning": '`{"effort", "summary"}`, without effect',
    "metadata": "an object of strings, which the answer repeats",
    "truncation": '`"disabled"`: an input that does not fit is refused',
}
"""What the fields mean that chats do not have, or have otherwise, in the words of
docs/parameters.md.
"""

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_FLAG: Schema = {"type": ["boolean", "null"]}
_SCHEMA: Schema = {"type": "object"}
_ID: Schema = {"type": "string", "maxLength": 128}
_NAME: Schema = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}


def _object(required: Sequence[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


_PART = _object(("type", "text"), type={"enum": ["input_text", "output_text"]}, text=_TEXT)
_CONTENT: Schema = {"anyOf": [_TEXT, {"type": "array", "items": _PART}]}
_ITEM: Schema = {
    "description": "A message, a call, its result, or reasoning; see docs/parameters.md.",
    "anyOf": [
        _object(
            ("role", "content"),
            type={"enum": ["message", None]},
            role={"enum": ["system", "developer", "user", "assistant"]},
            content=_CONTENT,
        ),
        _object(
            ("type", "call_id", "name", "arguments"),
            type={"const": "function_call"},
            call_id=_ID,
            name=_TEXT,
            arguments=_TEXT,
        ),
        _object(
            ("type", "call_id", "output"),
            type={"const": "function_call_output"},
            call_id=_ID,
            output=_CONTENT,
        ),
        _object(("type",), type={"const": "reasoning"}),
    ],
}
_TOOL = _object(
    ("type", "name"),
    type={"const": "function"},
    name=_NAME,
    description=_TEXT_OR_NULL,
    parameters={"type": ["object", "null"]},
    strict=_FLAG,
)
_FORMATS: Sequence[Schema] = [
    _object(("type",), type={"enum": ["text", "json_object"]}),
    _object(
        ("type", "name", "schema"),
        type={"const": "json_schema"},
        name=_TEXT,
        schema=_SCHEMA,
        strict=_FLAG,
        description=_TEXT_OR_NULL,
    ),
    {"type": "null"},
]
_FIELDS: Mapping[str, Schema] = {
    "input": {
        "anyOf": [
            _TEXT,
            {
                "type": "array",
                "minItems": 1,
                "items": {"$ref": "#/components/schemas/ResponseInputItem"},
            },
        ]
    },
    "max_output_tokens": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "text": _object((), format={"anyOf": _FORMATS}, verbosity=_TEXT_OR_NULL),
    "tools": {"type": "array", "maxItems": 128, "items": _TOOL},
    "tool_choice": {
        "anyOf": [
            {"enum": ["auto", "none", "required"]},
            _object(("type", "name"), type={"const": "function"}, name=_NAME),
        ]
    },
    "include": {"type": "array", "items": _TEXT},
    "reasoning": _object((), effort=_TEXT_OR_NULL, summary=_TEXT_OR_NULL),
    "metadata": {"type": "object", "additionalProperties": _TEXT},
    "truncation": {"const": "disabled"},
}


def response_schemas() -> dict[str, Schema]:
    """Return the schema of the body, and of what it refers to, by their names."""
    properties = {name: _supported(name) for name in RESPONSE_FIELDS}
    for name in STORED_FIELDS:
        properties[name] = _refused((False,))
    for name, values in RESPONSE_NEUTRAL_VALUES.items():
        properties[name] = _refused(values)
    for name in RESPONSE_IGNORED_FIELDS:
        properties[name] = {"description": "Without effect."}
    return {
        "ResponseInputItem": _ITEM,
        "ResponseRequest": _object(("input",), **properties),
    }


def _supported(name: str) -> Schema:
    words = RESPONSE_DESCRIPTIONS.get(name) or FIELD_DESCRIPTIONS[name]
    schema = dict(_FIELDS.get(name) or field_schema(name, RESPONSE_FIELDS[name]))
    described = schema if name == "input" else or_null(schema)
    return {**described, "description": f"{words[0].upper()}{words[1:]}."}


def _refused(values: Sequence[object]) -> Schema:
    return {
        "description": "Not supported: refused, unless the value asks for nothing.",
        "enum": [*values, None],
    }
