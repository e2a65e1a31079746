"""The tools of a request as the contract has them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headrace.v1 import tool_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.json_paths import find_json_path
from headrace_gateway.openai.json_text import to_json_text

_MODES = {
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "any": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
}
_JSON_PATHS = (
    (re.compile(r"chat\.tools(\[\d+\])\.parameters_json"), r"tools\1.input_schema"),
    (re.compile(r"chat\.tools(\[\d+\])?(\.name|\.description)?"), r"tools\1\2"),
    (re.compile(r"chat\.tool_choice\.tool_name"), "tool_choice.name"),
    (re.compile(r"chat\.tool_choice(\.mode)?"), "tool_choice"),
)


@dataclass(frozen=True, slots=True)
class ToolWish:
    """Whether and what is to be called.

    Args:
        choice: as in the contract.
        is_forced: whether there must be a call.
        allows_parallel: whether there may be several calls.
    """

    choice: tool_pb2.ToolChoice
    is_forced: bool
    allows_parallel: bool


def parse_tools(name: str, value: object) -> tuple[tool_pb2.Tool, ...]:
    """Read the list of tools.

    Raises:
        ApiError: 400, a tool is malformed, or one that only Anthropic has.
    """
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a list of tools.")
    return tuple(_tool(f"{name}[{index}]", item) for index, item in enumerate(value))


def parse_tool_choice(name: str, value: object) -> ToolWish:
    """Read whether and what is to be called.

    Raises:
        ApiError: 400, it is none of the choices.
    """
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or kind not in (*_MODES, "tool"):
        raise invalid_field(
            name, f"{name} must be an object with the type auto, any, tool or none."
        )
    single = value.get("disable_parallel_tool_use")
    if single is not None:
        single = field_types.boolean(f"{name}.disable_parallel_tool_use", single)
    if kind == "tool":
        tool_name = field_types.text(f"{name}.name", value.get("name"))
        choice = tool_pb2.ToolChoice(tool_name=tool_name)
    else:
        choice = tool_pb2.ToolChoice(mode=_MODES[kind])
    return ToolWish(choice, kind in ("any", "tool"), not single)


def tool_json_path(path: str) -> str | None:
    """Return the JSON path behind a field of the contract that has to do with tools."""
    return find_json_path(_JSON_PATHS, path)


def _tool(path: str, value: object) -> tool_pb2.Tool:
    if not isinstance(value, dict):
        raise invalid_field(path, f"{path} must be an object with name and input_schema.")
    if value.get("type") not in (None, "custom"):
        message = f"{path}.type must be custom: tools that Anthropic runs are not supported."
        raise invalid_field(path, message)
    tool = tool_pb2.Tool(name=field_types.text(f"{path}.name", value.get("name")))
    if (description := value.get("description")) is not None:
        tool.description = field_types.text(f"{path}.description", description)
    schema = value.get("input_schema")
    if not isinstance(schema, dict):
        message = f"{path}.input_schema must be a JSON schema as an object."
        raise invalid_field(path, message)
    tool.parameters_json = to_json_text(f"{path}.input_schema", schema)
    return tool
