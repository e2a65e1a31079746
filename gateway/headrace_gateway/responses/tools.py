"""The tools of a response: read, repeated in the answer, and as the contract has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import tool_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.json_text import to_json_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_MODES = {
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
    "required": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
}


class FunctionTool(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """A function that the model can call; its parameters are a JSON schema."""

    name: str
    parameters: msgspec.Raw | None
    strict: bool | None
    description: str | None = None

    def to_message(self) -> tool_pb2.Tool:
        """Return the tool of the contract."""
        parameters = "" if self.parameters is None else bytes(self.parameters).decode()
        return tool_pb2.Tool(
            name=self.name, description=self.description or "", parameters_json=parameters
        )


class NamedFunction(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """The function that is to be called."""

    name: str


def parse_tools(name: str, value: object) -> tuple[FunctionTool, ...]:
    """Read the list of tools.

    Raises:
        ApiError: 400, a tool is malformed or no function.
    """
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a list of tools.")
    return tuple(_tool(f"{name}[{index}]", item) for index, item in enumerate(value))


def parse_tool_choice(name: str, value: object) -> str | NamedFunction:
    """Read whether and what is to be called.

    Raises:
        ApiError: 400, it is none of OpenAI's choices, or not supported.
    """
    if isinstance(value, str) and value in _MODES:
        return value
    if not isinstance(value, dict) or value.get("type") != "function":
        message = f"{name} must be auto, none, required or a function of the tools."
        raise invalid_field(name, message)
    return NamedFunction(field_types.text(f"{name}.name", value.get("name")))


def to_tool_choice(choice: str | NamedFunction) -> tool_pb2.ToolChoice:
    """Return the choice of the contract."""
    if isinstance(choice, NamedFunction):
        return tool_pb2.ToolChoice(tool_name=choice.name)
    return tool_pb2.ToolChoice(mode=_MODES[choice])


def _tool(path: str, value: object) -> FunctionTool:
    if not isinstance(value, dict):
        raise invalid_field(path, f"{path} must be an object with type and name.")
    if (kind := value.get("type")) != "function":
        shown = kind if isinstance(kind, str) and kind.isidentifier() else "no word"
        message = f"{path}.type is {shown}, which is not supported; it must be function."
        raise invalid_field(f"{path}.type", message)
    strict, description = value.get("strict"), value.get("description")
    return FunctionTool(
        field_types.text(f"{path}.name", value.get("name")),
        _parameters(f"{path}.parameters", value),
        None if strict is None else field_types.boolean(f"{path}.strict", strict),
        None if description is None else field_types.text(f"{path}.description", description),
    )


def _parameters(path: str, value: Mapping[str, object]) -> msgspec.Raw | None:
    parameters = value.get("parameters")
    if parameters is None:
        return None
    if not isinstance(parameters, dict):
        raise invalid_field(path, f"{path} must be a JSON schema as an object.")
    return msgspec.Raw(to_json_text(path, parameters).encode())
