"""The one table of the fields of /v1/messages: which are supported, refused, or without effect.

A field with a null value was not given. A field that is in no table is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.anthropic.blocks import parse_messages, parse_system
from headrace_gateway.anthropic.thinking import parse_thinking
from headrace_gateway.anthropic.tools import parse_tool_choice, parse_tools
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.forms import parse_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace_gateway.openai.forms import Form

    Reader = Callable[[str, object], object]


def parse_texts(name: str, value: object) -> tuple[str, ...]:
    """Read a list of strings.

    Raises:
        ApiError: 400, it is something else.
    """
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a list of strings.")
    return tuple(field_types.text(f"{name}[{index}]", item) for index, item in enumerate(value))


def parse_metadata(name: str, value: object) -> None:
    """Check who asks, which has no effect.

    Raises:
        ApiError: 400, it is malformed.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object.")
    if (user_id := value.get("user_id")) is not None:
        field_types.text(f"{name}.user_id", user_id)


def parse_output_config(name: str, value: object) -> Form | None:
    """Read the form of the answer; None for any. The effort has no effect.

    Raises:
        ApiError: 400, it is malformed.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object.")
    form = value.get("format")
    if form is None:
        return None
    schema = form.get("schema") if isinstance(form, dict) else None
    if not isinstance(form, dict) or form.get("type") != "json_schema":
        raise invalid_field(name, f"{name}.format must be an object with the type json_schema.")
    if not isinstance(schema, dict):
        raise invalid_field(name, f"{name}.format.schema must be a JSON schema as an object.")
    return parse_schema(f"{name}.format.schema", schema)


MESSAGES_FIELDS: dict[str, Reader] = {
    "model": field_types.text,
    "messages": parse_messages,
    "max_tokens": field_types.int32,
    "system": parse_system,
    "stop_sequences": parse_texts,
    "stream": field_types.boolean,
    "temperature": field_types.number,
    "top_p": field_types.number,
    "top_k": field_types.int32,
    "tools": parse_tools,
    "tool_choice": parse_tool_choice,
    "thinking": parse_thinking,
    "output_config": parse_output_config,
    "metadata": parse_metadata,
}
"""The fields that are supported, each with its reader."""

NEUTRAL_VALUES: dict[str, tuple[object, ...]] = {
    "container": (),
    "mcp_servers": ([],),
}
"""The fields that are refused, each with the values that ask for nothing."""

IGNORED_FIELDS = (
    "cache_control",
    "context_management",
    "diagnostics",
    "inference_geo",
    "service_tier",
    "speed",
)
"""The fields that clients send and that have no effect here; nothing reads them."""
