"""Conversations and tools of the client → chats of the contract; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from grpc import StatusCode

from headrace.errors import InvalidRequestError
from headrace.tools import ToolCall
from headrace.v1 import tool_pb2
from headrace.v1.prompt_pb2 import Role
from headrace.wire import json_text, set_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.v1.prompt_pb2 import Chat, ChatMessage

_CHOICES = {
    "auto": tool_pb2.TOOL_CHOICE_MODE_AUTO,
    "none": tool_pb2.TOOL_CHOICE_MODE_NONE,
    "required": tool_pb2.TOOL_CHOICE_MODE_REQUIRED,
}
_SWITCHES = ("add_generation_prompt", "continue_final_message", "parallel_tool_calls")
_OTHERS = ("tools", "tool_choice", "template_arguments")

CHAT_OPTIONS = (*_SWITCHES, *_OTHERS)
"""The options that go with messages."""

OPTION_OF_FIELD = {
    "chat.messages": "messages",
    "chat.tools": "tools",
    "chat.tool_choice": "tool_choice",
    "chat.tool_choice.mode": "tool_choice",
    "chat.tool_choice.tool_name": "tool_choice",
    "chat.template_arguments_json": "template_arguments",
    **{f"chat.{option}": option for option in _SWITCHES},
}
"""The options by which callers know the fields of a chat."""


def fill_chat(chat: Chat, values: Mapping[str, Any]) -> None:
    """Fill in a conversation and what goes with it.

    Raises:
        TypeError: a value is of the wrong type.
        InvalidRequestError: a value cannot be put on the wire.
    """
    for index, message in enumerate(values["messages"]):
        _add_message(chat.messages.add(), f"messages[{index}]", message)
    for option in _SWITCHES:
        set_field(chat, option, option, values.get(option))
    for index, tool in enumerate(values.get("tools") or ()):
        _add_tool(chat.tools.add(), f"tools[{index}]", tool)
    if (choice := values.get("tool_choice")) is not None:
        if isinstance(choice, str) and choice in _CHOICES:
            chat.tool_choice.mode = _CHOICES[choice]
        else:
            set_field(chat.tool_choice, "tool_choice", "tool_name", choice)
    if (arguments := values.get("template_arguments")) is not None:
        text = json_text("template_arguments", arguments)
        set_field(chat, "template_arguments", "template_arguments_json", text)


def _add_message(target: ChatMessage, option: str, message: Mapping[str, Any]) -> None:
    _check_keys(option, message, {"role", "content", "name", "tool_calls", "tool_call_id"})
    role = message.get("role")
    try:
        target.role = Role.Value(f"ROLE_{str(role).upper()}")
    except ValueError:
        raise InvalidRequestError(
            f"{option}.role must be system, user, assistant or tool, not {role!r}.",
            code=StatusCode.INVALID_ARGUMENT,
            field=f"{option}.role",
        ) from None
    for key in ("content", "name", "tool_call_id"):
        set_field(target, f"{option}.{key}", key, message.get(key))
    _add_calls(target, f"{option}.tool_calls", message.get("tool_calls") or ())


def _add_calls(target: ChatMessage, option: str, calls: Sequence[ToolCall]) -> None:
    for index, call in enumerate(calls):
        if not isinstance(call, ToolCall):
            raise TypeError(f"{option} must hold ToolCall, not {type(call).__name__}")
        message = target.tool_calls.add()
        for key in ("id", "name", "arguments_json"):
            set_field(message, f"{option}[{index}].{key}", key, getattr(call, key))


def _add_tool(target: tool_pb2.Tool, option: str, tool: Mapping[str, Any]) -> None:
    _check_keys(option, tool, {"name", "description", "parameters"})
    set_field(target, f"{option}.name", "name", tool.get("name"))
    set_field(target, f"{option}.description", "description", tool.get("description"))
    parameters = tool.get("parameters")
    if parameters is not None and not isinstance(parameters, str):
        parameters = json_text(f"{option}.parameters", parameters)
    set_field(target, f"{option}.parameters", "parameters_json", parameters)


def _check_keys(option: str, value: Mapping[str, Any], known: set[str]) -> None:
    if unknown := value.keys() - known:
        raise TypeError(f"{option} has an unknown key {min(unknown)!r}")
