"""The messages of a chat as the contract has them."""

from __future__ import annotations

from headrace.v1 import prompt_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import ApiError, invalid_field

_ROLES = {
    "system": prompt_pb2.ROLE_SYSTEM,
    "developer": prompt_pb2.ROLE_SYSTEM,
    "user": prompt_pb2.ROLE_USER,
    "assistant": prompt_pb2.ROLE_ASSISTANT,
}
_UNSUPPORTED_ROLES = ("tool", "function")
_UNSUPPORTED_KEYS = ("tool_calls", "function_call", "audio")


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
    message = prompt_pb2.ChatMessage(
        role=_role(index, value.get("role")), content=_content(index, value.get("content"))
    )
    if (name := value.get("name")) is not None:
        message.name = _text(index, "name", name)
    return message


def _role(index: int, value: object) -> prompt_pb2.Role.ValueType:
    if isinstance(value, str):
        if value in _ROLES:
            return _ROLES[value]
        if value in _UNSUPPORTED_ROLES:
            raise _refusal(index, f"has the role {value}, which is not supported")
    raise _refusal(index, "must have the role system, developer, user or assistant")


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
