"""The form of a response's text: read, and repeated in the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import constraint_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.forms import Form
from headrace_gateway.openai.json_text import to_json_text

if TYPE_CHECKING:
    from collections.abc import Mapping


class AnyText(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """Text of any form."""


class AnyObject(msgspec.Struct, frozen=True, tag_field="type", tag="json_object"):
    """Any JSON object."""


class SchemaFormat(msgspec.Struct, frozen=True, tag_field="type", tag="json_schema"):
    """JSON that follows a schema, to the letter with `strict` and without."""

    name: str
    schema: msgspec.Raw
    strict: bool | None = None
    description: str | None = None


class TextConfig(msgspec.Struct, frozen=True):
    """The form of the text; `verbosity` has no effect."""

    format: AnyText | AnyObject | SchemaFormat = AnyText()
    verbosity: str | None = None

    def form(self) -> Form | None:
        """Return the form of the contract; None for any."""
        match self.format:
            case SchemaFormat(schema=schema):
                constraint = constraint_pb2.Constraint(json_schema=bytes(schema).decode())
                return Form(constraint, "text.format.schema")
            case AnyObject():
                return Form(constraint_pb2.Constraint(json_object=True), "text.format")
            case _:
                return None


def parse_text_config(name: str, value: object) -> TextConfig:
    """Read OpenAI's `text`.

    Raises:
        ApiError: 400, it is malformed.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object.")
    verbosity = value.get("verbosity")
    return TextConfig(
        _format(f"{name}.format", value.get("format")),
        None if verbosity is None else field_types.text(f"{name}.verbosity", verbosity),
    )


def _format(path: str, value: object) -> AnyText | AnyObject | SchemaFormat:
    if value is None:
        return AnyText()
    kind = value.get("type") if isinstance(value, dict) else None
    if isinstance(value, dict) and kind == "json_schema":
        return _schema(path, value)
    if kind == "json_object":
        return AnyObject()
    if kind != "text":
        message = f"{path} must be an object with the type text, json_object or json_schema."
        raise invalid_field(path, message)
    return AnyText()


def _schema(path: str, value: Mapping[str, object]) -> SchemaFormat:
    schema, strict, description = (value.get(key) for key in ("schema", "strict", "description"))
    if not isinstance(schema, dict):
        raise invalid_field(f"{path}.schema", f"{path}.schema must be a JSON schema as an object.")
    return SchemaFormat(
        field_types.text(f"{path}.name", value.get("name")),
        msgspec.Raw(to_json_text(f"{path}.schema", schema).encode()),
        None if strict is None else field_types.boolean(f"{path}.strict", strict),
        None if description is None else field_types.text(f"{path}.description", description),
    )
