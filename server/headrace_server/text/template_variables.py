"""Turns a conversation into the variables of a chat template, as transformers names them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace_server.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace_server.text.generation import ChatMessage, ChatPrompt
    from headrace_server.text.tools import Tool, ToolCall

# Levels of objects and arrays in what callers send as JSON: more than any schema has.
MAX_JSON_DEPTH: Final = 64

# The variables that the server sets itself; of those of the model the template knows.
_OWN_VARIABLES: Final = frozenset(("messages", "tools", "documents", "add_generation_prompt"))

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TemplateVariables:
    """What a template is given, but for what belongs to the model.

    Args:
        messages: with `role` and `content`, and where they have them `name`, `tool_calls` and
            `tool_call_id`.
        tools: in OpenAI's shape; empty for none.
        arguments: those of the caller.
    """

    messages: list[Message]
    tools: list[Any]
    arguments: dict[str, Any]


def template_variables(prompt: ChatPrompt) -> TemplateVariables:
    """Read all JSON of a chat.

    Raises:
        InvalidFieldError: some of it is not what it must be.
    """
    names = {call.id: call.name for message in prompt.messages for call in message.tool_calls}
    messages = [_message(message, index, names) for index, message in enumerate(prompt.messages)]
    # Hidden tools are checked as well: whether they are sound is not up to the choice.
    tools = [_tool(tool, index) for index, tool in enumerate(prompt.tool_use.tools)]
    return TemplateVariables(messages, tools if prompt.tool_use.offered else [], _arguments(prompt))


def _message(message: ChatMessage, index: int, names: Mapping[str, str]) -> Message:
    fields: Message = {"role": message.role, "content": message.content}
    # Some templates show the name of the tool, which few clients send with its result.
    name = message.name or names.get(message.tool_call_id or "")
    if name is not None:
        fields["name"] = name
    if message.tool_calls:
        fields["tool_calls"] = [
            _call(call, f"chat.messages[{index}].tool_calls[{place}].arguments_json")
            for place, call in enumerate(message.tool_calls)
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _call(call: ToolCall, field: str) -> Any:
    function = {"name": call.name, "arguments": _object(call.arguments_json, field)}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: Tool, index: int) -> Any:
    field = f"chat.tools[{index}].parameters_json"
    schema = _object(tool.parameters_json, field) or {"type": "object", "properties": {}}
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise InvalidFieldError(field, f'{field} must have the type "object".')
    function = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": function}


def _arguments(prompt: ChatPrompt) -> dict[str, Any]:
    field = "chat.template_arguments_json"
    arguments = _object(prompt.template_arguments_json, field)
    for name in arguments:
        if name in _OWN_VARIABLES:
            raise InvalidFieldError(field, f"{field} must not set {name}, as the server does.")
        if not name.isidentifier():
            raise InvalidFieldError(field, f"{field} must have names of variables as its keys.")
    return arguments


def _object(text: str, field: str) -> dict[str, Any]:
    """Read a JSON object; empty text is an empty one."""
    if not text:
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise InvalidFieldError(field, f"{field} must be a JSON object.")
    if _is_deep(value):
        message = f"{field} must be nested at most {MAX_JSON_DEPTH} levels deep."
        raise InvalidFieldError(field, message)
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_JSON_DEPTH):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
    return any(isinstance(each, dict | list) for each in level)
