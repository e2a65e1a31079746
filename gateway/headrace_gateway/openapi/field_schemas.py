"""JSON schemas of the fields of request bodies, by what reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.openai import field_types, forms, messages, prompts, stream_options, tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Schema = Mapping[str, object]

_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
_TOKEN_IDS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}

_NAME: Schema = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}

_OF_READERS: Mapping[Callable[[str, object], object], Schema] = {
    field_types.text: {"type": "string"},
    field_types.boolean: {"type": "boolean"},
    field_types.number: {"type": "number"},
    field_types.int32: {"type": "integer"},
    field_types.int64: {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    field_types.negated_int32: {"type": "integer"},
    field_types.count_or_false: {"type": "integer", "minimum": 0, "maximum": 20},
    field_types.int32_list: {"type": "array", "items": {"type": "integer", "minimum": 0}},
    field_types.text_or_list: {"anyOf": [{"type": "string"}, _TEXTS]},
    field_types.bias_by_token_id: {
        "type": "object",
        "propertyNames": {"pattern": "^[0-9]{1,10}$"},
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
        "maxProperties": 1024,
    },
    forms.parse_schema: {"type": ["object", "string"]},
    forms.parse_regex: {"type": "string"},
    forms.parse_grammar: {"type": "string"},
    forms.parse_choices: {**_TEXTS, "minItems": 1},
    forms.parse_response_format: {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"enum": ["text", "json_object", "json_schema"]},
            "json_schema": {
                "type": "object",
                "required": ["schema"],
                "properties": {"schema": {"type": "object"}},
            },
            "schema": {"type": ["object", "string"]},
            "value": {"type": ["object", "string"]},
        },
    },
    forms.parse_structured_outputs: {
        "type": "object",
        "properties": {
            "json": {"type": ["object", "string"]},
            "json_object": {"type": "boolean"},
            "regex": {"type": "string"},
            "choice": {**_TEXTS, "minItems": 1},
            "grammar": {"type": "string"},
        },
    },
    messages.parse_messages: {
        "type": "array",
        "minItems": 1,
        "maxItems": 4096,
        "items": {"$ref": "#/components/schemas/ChatMessage"},
    },
    prompts.parse_prompts: {
        "anyOf": [
            {"type": "string", "minLength": 1},
            _TOKEN_IDS,
            {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
            {"type": "array", "items": _TOKEN_IDS, "minItems": 1},
        ]
    },
    stream_options.parse_stream_options: {
        "type": "object",
        "properties": {"include_usage": {"type": ["boolean", "null"]}},
    },
    tools.parse_tools: {
        "type": "array",
        "maxItems": 128,
        "items": {
            "type": "object",
            "required": ["function"],
            "properties": {
                "type": {"const": "function"},
                "function": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": _NAME,
                        "description": {"type": ["string", "null"]},
                        "parameters": {"type": ["object", "null"]},
                        "strict": {"type": ["boolean", "null"]},
                    },
                },
            },
        },
    },
    tools.parse_tool_choice: {
        "anyOf": [
            {"enum": ["auto", "none", "required"]},
            {
                "type": "object",
                "required": ["function"],
                "properties": {
                    "type": {"const": "function"},
                    "function": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": _NAME},
                    },
                },
            },
        ]
    },
    tools.parse_template_arguments: {"type": "object"},
}

_RANGES: Mapping[str, Schema] = {
    "model": {"maxLength": 256},
    "max_tokens": {"minimum": 0, "maximum": 2**31 - 1},
    "max_completion_tokens": {"minimum": 0, "maximum": 2**31 - 1},
    "min_tokens": {"minimum": 0, "maximum": 2**31 - 1},
    "temperature": {"minimum": 0, "maximum": 2},
    "top_p": {"exclusiveMinimum": 0, "maximum": 1},
    "top_k": {"minimum": -1, "maximum": 2**31 - 1},
    "min_p": {"minimum": 0, "maximum": 1},
    "n": {"minimum": 1, "maximum": 16},
    "best_of": {"minimum": 1, "maximum": 16},
    "presence_penalty": {"minimum": -2, "maximum": 2},
    "frequency_penalty": {"minimum": -2, "maximum": 2},
    "repetition_penalty": {"minimum": 0.1, "maximum": 10},
    "stop_token_ids": {"maxItems": 64},
    "guided_choice": {"minItems": 1},
    "priority": {"minimum": -100, "maximum": 100},
    "cache_salt": {"maxLength": 256},
    "top_logprobs": {"minimum": 0, "maximum": 20},
    "request_id": {"pattern": "^[\\x20-\\x7e]{0,128}$"},
    "rid": {"pattern": "^[\\x20-\\x7e]{0,128}$"},
    "tokens": {"maxItems": 262_144},
}
"""What the server says of the values of a field, under the names of JSON schemas."""


def knows(reader: Callable[[str, object], object]) -> bool:
    """Tell whether there is a schema for what a reader reads."""
    return reader in _OF_READERS


def field_schema(name: str, reader: Callable[[str, object], object]) -> dict[str, object]:
    """Return the schema of a field; one that nobody has described may be anything.

    Args:
        name: of the field, for its range.
        reader: of the table of fields.
    """
    schema = dict(_OF_READERS.get(reader, {}))
    if schema.get("type") == "boolean":
        return schema  # "logprobs" is a switch in one body and a number in another
    return {**schema, **_RANGES.get(name, {})}


def or_null(schema: Mapping[str, object]) -> dict[str, object]:
    """Return the schema of a field that may be null, which is as good as nothing."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {**schema, "type": [kind, "null"]}
    if isinstance(kind, list):
        return {**schema, "type": [*kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else {}
