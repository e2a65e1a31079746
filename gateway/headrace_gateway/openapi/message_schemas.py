"""JSON schemas of the bodies of /v1/messages, from the table of its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.anthropic.fields import IGNORED_FIELDS, MESSAGES_FIELDS, NEUTRAL_VALUES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Schema = Mapping[str, object]

MESSAGES_DESCRIPTIONS: Mapping[str, str] = {
    "model": "a name from `/v1/models`, at most 256 characters",
    "messages": "one turn or more",
    "max_tokens": "at least 0; cut to the room that the prompt leaves",
    "system": "instructions to the model: a string, or a list of text blocks",
    "stop_sequences": "a list of at most 16 strings, each of 1 to 256 characters",
    "stream": "true: send the answer as it is made",
    "temperature": "0 to 2; 0 takes the most likely token",
    "top_p": "above 0, up to 1",
    "top_k": "at least 0; 0 leaves all tokens",
    "tools": 'at most 128 of `{"name", "description", "input_schema"}`',
    "tool_choice": (
        '`{"type": "auto"}`, `"any"`, `"none"`, or `{"type": "tool", "name": …}`; with '
        "`disable_parallel_tool_use` an answer has one call at most"
    ),
    "thinking": (
        '`{"type": "enabled"}`, `"adaptive"` or `"disabled"`, for models that can do without'
    ),
    "output_config": '`{"format": {"type": "json_schema", "schema": {…}}}`',
    "metadata": '`{"user_id": …}`, without effect',
}
"""What each supported field means, in the words of docs/parameters.md."""

_NAME: Schema = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}
_ID: Schema = {"type": "string", "maxLength": 128}
_FLAG: Schema = {"type": ["boolean", "null"]}


def _object(required: Sequence[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


_TEXT = _object(("type", "text"), type={"const": "text"}, text={"type": "string"})
_TEXTS: Schema = {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT}]}
_BLOCKS: Sequence[Schema] = (
    _TEXT,
    _object(
        ("type", "id", "name", "input"),
        type={"const": "tool_use"},
        id=_ID,
        name=_NAME,
        input={"type": "object"},
    ),
    _object(
        ("type", "tool_use_id"),
        type={"const": "tool_result"},
        tool_use_id=_ID,
        content={"anyOf": [_TEXTS, {"type": "null"}]},
        is_error=_FLAG,
    ),
    _object(("type",), type={"enum": ["thinking", "redacted_thinking"]}),
)
_MESSAGE = _object(
    ("role", "content"),
    role={"enum": ["user", "assistant", "system"]},
    content={
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"anyOf": list(_BLOCKS)}, "minItems": 1},
        ]
    },
)
_TOOL = _object(
    ("name", "input_schema"),
    type={"enum": ["custom", None]},
    name=_NAME,
    description={"type": ["string", "null"]},
    input_schema={"type": "object"},
)
_FIELDS: Mapping[str, Schema] = {
    "model": {"type": "string", "maxLength": 256},
    "messages": {
        "type": "array",
        "minItems": 1,
        "items": {"$ref": "#/components/schemas/InputMessage"},
    },
    "max_tokens": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "system": _TEXTS,
    "stop_sequences": {
        "type": "array",
        "maxItems": 16,
        "items": {"type": "string", "minLength": 1, "maxLength": 256},
    },
    "stream": {"type": "boolean"},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "top_k": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "tools": {"type": "array", "maxItems": 128, "items": _TOOL},
    "tool_choice": {
        "anyOf": [
            _object(
                ("type",),
                type={"enum": ["auto", "any", "none"]},
                disable_parallel_tool_use=_FLAG,
            ),
            _object(
                ("type", "name"),
                type={"const": "tool"},
                name=_NAME,
                disable_parallel_tool_use=_FLAG,
            ),
        ]
    },
    "thinking": _object(
        ("type",),
        type={"enum": ["enabled", "adaptive", "disabled"]},
        budget_tokens={"type": ["integer", "null"]},
    ),
    "output_config": _object(
        (),
        format={
            "anyOf": [
                _object(
                    ("type", "schema"), type={"const": "json_schema"}, schema={"type": "object"}
                ),
                {"type": "null"},
            ]
        },
    ),
    "metadata": _object((), user_id={"type": ["string", "null"]}),
}


def message_schemas() -> dict[str, Schema]:
    """Return the schemas of the bodies, and of what they refer to, by their names."""
    return {
        "InputMessage": _MESSAGE,
        "MessagesRequest": _body(("messages", "max_tokens")),
        "CountTokensRequest": _body(("messages",)),
    }


def _body(required: Sequence[str]) -> Schema:
    properties: dict[str, Schema] = {
        name: _supported(name, is_required=name in required) for name in MESSAGES_FIELDS
    }
    for name, values in NEUTRAL_VALUES.items():
        properties[name] = {
            "description": "Not supported: refused, unless the value asks for nothing.",
            "enum": [*values, None],
        }
    for name in IGNORED_FIELDS:
        properties[name] = {"description": "Without effect."}
    return _object(required, **properties)


def _supported(name: str, *, is_required: bool) -> Schema:
    words = MESSAGES_DESCRIPTIONS[name]
    schema = _FIELDS[name]
    described = schema if is_required else {"anyOf": [schema, {"type": "null"}]}
    return {**described, "description": f"{words[0].upper()}{words[1:]}."}
