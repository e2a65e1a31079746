"""JSON schemas of the request bodies, from the tables of their fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.openai.fields import (
    CHAT_FIELDS,
    COMPLETION_FIELDS,
    DETOKENIZE_FIELDS,
    IGNORED_FIELDS,
    NEUTRAL_VALUES,
    TOKENIZE_FIELDS,
    TOKENIZE_NEUTRAL_VALUES,
)
from headrace_gateway.openapi.field_descriptions import FIELD_DESCRIPTIONS
from headrace_gateway.openapi.field_schemas import field_schema, or_null

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Fields = Mapping[str, Callable[[str, object], object]]
    Schema = dict[str, object]

_CHAT_MESSAGE: Schema = {
    "type": "object",
    "description": "One turn of a conversation; see docs/parameters.md.",
    "required": ["role"],
    "properties": {
        "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
        "content": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type", "text"],
                        "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                    },
                },
                {"type": "null"},
            ]
        },
        "name": {"type": ["string", "null"], "maxLength": 128},
        "tool_calls": {
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "required": ["function"],
                "properties": {
                    "id": {"type": ["string", "null"], "maxLength": 128},
                    "type": {"const": "function"},
                    "function": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "arguments": {"type": ["string", "null"]},
                        },
                    },
                },
            },
            "maxItems": 128,
        },
        "tool_call_id": {"type": ["string", "null"], "maxLength": 128},
    },
}


def request_schemas() -> dict[str, Schema]:
    """Return the schemas of all bodies, and of what they refer to, by their names."""
    text = _body(TOKENIZE_FIELDS, TOKENIZE_NEUTRAL_VALUES, ())
    return {
        "ChatMessage": _CHAT_MESSAGE,
        "ChatCompletionRequest": _body(
            CHAT_FIELDS, NEUTRAL_VALUES, IGNORED_FIELDS, required=["messages"]
        ),
        "CompletionRequest": _body(
            COMPLETION_FIELDS, NEUTRAL_VALUES, IGNORED_FIELDS, required=["prompt"]
        ),
        "TokenizeTextRequest": {**text, "anyOf": [{"required": [name]} for name in _TEXTS]},
        "DetokenizeRequest": _body(DETOKENIZE_FIELDS, {}, (), required=["tokens"]),
    }


_TEXTS = ("prompt", "content")


def _body(
    supported: Fields,
    neutral_values: Mapping[str, tuple[object, ...]],
    ignored: Iterable[str],
    required: Sequence[str] = (),
) -> Schema:
    properties: dict[str, object] = {
        name: _supported(name, read, is_required=name in required)
        for name, read in supported.items()
    }
    for name, values in neutral_values.items():
        if name not in supported:
            properties[name] = _refused(values)
    for name in ignored:
        properties.setdefault(name, {"description": "Without effect."})
    body: Schema = {"type": "object", "properties": properties}
    return {**body, "required": list(required)} if required else body


def _supported(name: str, read: Callable[[str, object], object], *, is_required: bool) -> Schema:
    schema = field_schema(name, read)
    described = schema if is_required else or_null(schema)
    if (description := FIELD_DESCRIPTIONS.get(name)) is None:
        return described
    return {**described, "description": f"{description[0].upper()}{description[1:]}."}


def _refused(values: tuple[object, ...]) -> Schema:
    return {
        "description": "Not supported: refused, unless the value asks for nothing.",
        "enum": [*values, None],
    }
