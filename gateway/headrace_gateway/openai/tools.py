"""The tools of a chat as the contract has them."""

from __future__ import annotations

import re

from headrace.v1 import tool_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.json_paths import find_json_path
from headrace_gateway.openai.json_text import to_json_text

_MODES = {
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
    "required": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
}

_JSON_PATHS = (
    (re.compile(r"chat\.tools(\[\d+\])\.(name|description)"), r"tools\1.function.\2"),
    (re.compile(r"chat\.tools(\[\d+\])\.parameters_json"), r"tools\1.function.parameters"),
    (re.compile(r"chat\.tools(\[\d+\])?"), r"tools\1"),
    (re.compile(r"chat\.tool_choice\.tool_name"), "tool_choice.function.name"),
    (re.compile(r"chat\.tool_choice(\.mode)?"), "tool_choice"),
    (re.compile(r"chat\.template_arguments_json"), "chat_template_kwargs"),
    (
        re.compile(r"chat\.(messages\[\d+\]\.tool_calls\[\d+\])\.name"),
        r"\1.function.name",
    ),
    (
        re.compile(r"chat\.(messages\[\d+\]\.tool_calls\[\d+\])\.arguments_json"),
        r"\1.function.arguments",
    ),
)


def parse_tools(name: str, value: object) -> tuple[tool_pb2.Tool, ...]:
    """Read the list of tools.

    Raises:
        ApiError: 400, a tool is malformed or no function.
    """
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a list of tools.")
    return tuple(_tool(f"{name}[{index}]", item) for index, item in enumerate(value))


def parse_tool_choice(name: str, value: object) -> tool_pb2.ToolChoice:
    """Read whether and what is to be called.

    Raises:
        ApiError: 400, it is none of OpenAI's choices, or not supported.
    """
    if isinstance(value, str) and value in _MODES:
        return tool_pb2.ToolChoice(mode=_MODES[value])
    function = value.get("function") if isinstance(value, dict) else None
    is_function = isinstance(value, dict) and value.get("type", "function") == "function"
    if not is_function or not isinstance(function, dict):
        message = f"{name} must be auto, none, required or a function of the tools."
        raise invalid_field(name, message)
    tool_name = field_types.text(f"{name}.function.name", function.get("name"))
    return tool_pb2.ToolChoice(tool_name=tool_name)


def parse_template_arguments(name: str, value: object) -> str:
    """Read the variables of the chat template; they go on as JSON text.

    Raises:
        ApiError: 400, they are no object.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object.")
    return to_json_text(name, value) if value else ""


def tool_json_path(path: str) -> str | None:
    """Return the JSON path behind a field of the contract that has to do with tools."""
    return find_json_path(_JSON_PATHS, path)


def _tool(path: str, value: object) -> tool_pb2.Tool:
    if not isinstance(value, dict):
        raise invalid_field(path, f"{path} must be an object with type and function.")
    if value.get("type", "function") != "function":
        raise invalid_field(path, f"{path}.type must be function.")
    path = f"{path}.function"
    function = value.get("function")
    if not isinstance(function, dict):
        raise invalid_field(path, f"{path} must be an object with a name.")
    if (strict := function.get("strict")) is not None:
        field_types.boolean(f"{path}.strict", strict)
    tool = tool_pb2.Tool(name=field_types.text(f"{path}.name", function.get("name")))
    if (description := function.get("description")) is not None:
        tool.description = field_types.text(f"{path}.description", description)
    if (parameters := function.get("parameters")) is not None:
        if not isinstance(parameters, dict):
            message = f"{path}.parameters must be a JSON schema as an object."
            raise invalid_field(f"{path}.parameters", message)
        tool.parameters_json = to_json_text(f"{path}.parameters", parameters)
    return tool
