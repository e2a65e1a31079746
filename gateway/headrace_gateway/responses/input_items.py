"""The input of a response, a text or items, as the messages of a chat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.v1 import prompt_pb2, tool_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import ApiError, invalid_field

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES = {
    "system": prompt_pb2.ROLE_SYSTEM,
    "developer": prompt_pb2.ROLE_SYSTEM,
    "user": prompt_pb2.ROLE_USER,
    "assistant": prompt_pb2.ROLE_ASSISTANT,
}

_TEXT_KEYS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
"""The key that holds the text, of each type of content that is text."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message, and the JSON paths that it came from.

    Args:
        message: as in the contract.
        path: that of the item; where there is none, of the field.
        call_paths: those of its calls.
    """

    message: prompt_pb2.ChatMessage
    path: str
    call_paths: list[str] = field(default_factory=list)


def parse_input(name: str, value: object) -> tuple[Turn, ...]:
    """Read the input.

    Calls belong to the message of the assistant before them. Reasoning of earlier answers is
    left out, as no model is shown it again.

    Raises:
        ApiError: 400, it is malformed or holds what is not supported.
    """
    if isinstance(value, str):
        content = field_types.text(name, value)
        return (Turn(prompt_pb2.ChatMessage(role=prompt_pb2.ROLE_USER, content=content), name),)
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a string or a list of items.")
    turns: list[Turn] = []
    for index, item in enumerate(value):
        _add_item(turns, f"{name}[{index}]", item)
    if not turns:
        raise invalid_field(name, f"{name} must have at least one message or call.")
    return tuple(turns)


def _add_item(turns: list[Turn], path: str, value: object) -> None:
    if not isinstance(value, dict):
        raise _refusal(path, "must be an object with a type")
    kind = value.get("type")
    if kind is None or kind == "message":
        turns.append(Turn(_message(path, value), path))
    elif kind == "function_call":
        _add_call(turns, path, value)
    elif kind == "function_call_output":
        turns.append(Turn(_output(path, value), path))
    elif kind == "item_reference":
        raise _refusal(path, "refers to an item, and nothing is stored; send the item itself")
    elif kind != "reasoning":
        shown = kind if isinstance(kind, str) and kind.isidentifier() else "that is no word"
        raise _refusal(
            path,
            f"has the type {shown}, which is not supported; there are message, function_call, "
            "function_call_output and reasoning",
        )


def _message(path: str, value: Mapping[str, object]) -> prompt_pb2.ChatMessage:
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise _refusal(path, "must have the role system, developer, user or assistant")
    return prompt_pb2.ChatMessage(role=_ROLES[role], content=_text(path, "content", value))


def _add_call(turns: list[Turn], path: str, value: Mapping[str, object]) -> None:
    call = tool_pb2.ToolCall(
        id=_string(path, "call_id", value.get("call_id")),
        name=_string(path, "name", value.get("name")),
        arguments_json=_string(path, "arguments", value.get("arguments")),
    )
    if not turns or turns[-1].message.role != prompt_pb2.ROLE_ASSISTANT:
        turns.append(Turn(prompt_pb2.ChatMessage(role=prompt_pb2.ROLE_ASSISTANT), path))
    turns[-1].message.tool_calls.append(call)
    turns[-1].call_paths.append(path)


def _output(path: str, value: Mapping[str, object]) -> prompt_pb2.ChatMessage:
    return prompt_pb2.ChatMessage(
        role=prompt_pb2.ROLE_TOOL,
        content=_text(path, "output", value),
        tool_call_id=_string(path, "call_id", value.get("call_id")),
    )


def _text(path: str, key: str, value: Mapping[str, object]) -> str:
    content = value.get(key)
    if isinstance(content, list):
        return "\n".join(_part(f"{path}.{key}[{i}]", part) for i, part in enumerate(content))
    if not isinstance(content, str):
        raise _refusal(path, f"must have a string or a list of texts as {key}")
    return _string(path, key, content)


def _part(path: str, value: object) -> str:
    if not isinstance(value, dict):
        raise _refusal(path, "must be an object with type and text")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _TEXT_KEYS:
        raise _refusal(path, "must have the type input_text or output_text: the model takes text")
    key = _TEXT_KEYS[kind]
    return _string(path, key, value.get(key))


def _string(path: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _refusal(path, f"must have a string as {key}")
    if not field_types.is_unicode(value):
        raise _refusal(path, f"holds half of a surrogate pair in {key}, which is no character")
    return value


def _refusal(path: str, what: str) -> ApiError:
    return invalid_field(path.partition("[")[0], f"{path} {what}.")
