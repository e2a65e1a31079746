"""The messages of a chat as the contract has them."""

from __future__ import annotations

from headrace.v1 import prompt_pb2, tool_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import ApiError, invalid_field

_ROLES = {
    "system": prompt_pb2.ROLE_SYSTEM,
    "developer": prompt_pb2.ROLE_SYSTEM,
    "user": prompt_pb2.ROLE_USER,
    "assistant": prompt_pb2.ROLE_ASSISTANT,
    "tool": prompt_pb2.ROLE_TOOL,
}
_UNSUPPORTED_ROLES = ("function",)
_UNSUPPORTED_KEYS = ("function_call", "audio")


def parse_messages(name: str, value: object) -> tuple[prompt_pb2.ChatMessage, ...]:
    """Read the list of messages; an empty one is the server's to refuse.

    Raises:
        ApiError: 400, a message is malformed or holds what is not supported.
    """
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a list of messages.")
    return tuple(_message(index, item) for index, item in enumerate(value))


def _message(index: int, value: object) -> prompt_pb2.ChatMessage:
    if not isinstance(value, dict):
        raise _refusal(index, "must be an object with role and content")
    for key in _UNSUPPORTED_KEYS:
        if value.get(key):
            raise _refusal(index, f"holds {key}, which is not supported")
    calls = _calls(index, value.get("tool_calls"))
    content = value.get("content")
    message = prompt_pb2.ChatMessage(
        role=_role(index, value.get("role")),
        # Calls may be all that the model said.
        content="" if content is None and calls else _content(index, content),
        tool_calls=calls,
    )
    if (name := value.get("name")) is not None:
        message.name = _text(index, "name", name)
    if (call_id := value.get("tool_call_id")) is not None:
        message.tool_call_id = _text(index, "tool_call_id", call_id)
    return message


def _role(index: int, value: object) -> prompt_pb2.Role.ValueType:
    if isinstance(value, str):
        if value in _ROLES:
            return _ROLES[value]
        if value in _UNSUPPORTED_ROLES:
            raise _refusal(index, f"has the role {value}, which is not supported")
    raise _refusal(index, "must have the role system, developer, user, assistant or tool")


def _calls(index: int, value: object) -> list[tool_pb2.ToolCall]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _refusal(index, "must have a list of calls as tool_calls")
    return [_call(index, call) for call in value]


def _call(index: int, value: object) -> tool_pb2.ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(function, dict):
        raise _refusal(index, "holds a call that is not an object with a function")
    if value.get("type", "function") != "function":
        raise _refusal(index, "holds a call of something else than a function")
    call = tool_pb2.ToolCall(name=_text(index, "function.name", function.get("name")))
    if (call_id := value.get("id")) is not None:
        call.id = _text(index, "id of a call", call_id)
    if (arguments := function.get("arguments")) is not None:
        call.arguments_json = _text(index, "function.arguments", arguments)
    return call


def _content(index: int, value: object) -> str:
    if isinstance(value, str):
        return _text(index, "content", value)
    if isinstance(value, list):
        return "\n".join(_part(index, part) for part in value)
    if value is None:
        raise _refusal(index, "has no content")
    raise _refusal(index, "must have a string or a list of text parts as content")


def _part(index: int, value: object) -> str:
    if not isinstance(value, dict):
        raise _refusal(index, "holds a content part that is not an object")
    if value.get("type") != "text":
        raise _refusal(index, "holds a content part other than text, and the model takes only text")
    return _text(index, "text", value.get("text"))


def _text(index: int, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _refusal(index, f"must have a string as {key}")
    if not field_types.is_unicode(value):
        raise _refusal(index, f"holds half of a surrogate pair in {key}, which is no character")
    return value


def _refusal(index: int, what: str) -> ApiError:
    return invalid_field("messages", f"messages[{index}] {what}.")
