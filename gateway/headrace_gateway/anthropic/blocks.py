"""The conversation of a request, read into the blocks that it is made of."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.v1 import prompt_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.json_text import to_json_text

_ROLES = {
    "user": prompt_pb2.ROLE_USER,
    "assistant": prompt_pb2.ROLE_ASSISTANT,
    "system": prompt_pb2.ROLE_SYSTEM,
}
_TYPES = {
    prompt_pb2.ROLE_USER: ("text", "tool_result"),
    prompt_pb2.ROLE_ASSISTANT: ("text", "tool_use", "thinking", "redacted_thinking"),
    prompt_pb2.ROLE_SYSTEM: ("text",),
    prompt_pb2.ROLE_TOOL: ("text",),
}
_UNSUPPORTED_TYPES = ("image", "document", "search_result", "container_upload", "tool_reference")


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Words of one who speaks; `path` is where they are in the JSON."""

    path: str
    role: prompt_pb2.Role.ValueType
    text: str


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A call that the model has made; its input is JSON text."""

    path: str
    id: str
    name: str
    input_json: str


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """What a tool has answered."""

    path: str
    tool_use_id: str
    text: str


Block = TextBlock | ToolUseBlock | ToolResultBlock


def parse_system(name: str, value: object) -> tuple[Block, ...]:
    """Read the instructions to the model: a string, or text blocks; none where they are empty.

    Raises:
        ApiError: 400, they are malformed.
    """
    blocks = _content(name, prompt_pb2.ROLE_SYSTEM, value)
    return blocks if join_texts(blocks) else ()


def parse_messages(name: str, value: object) -> tuple[Block, ...]:
    """Read the turns of a conversation.

    Thinking of earlier turns is left out: models are not shown it again.

    Raises:
        ApiError: 400, a message is malformed or holds what is not supported.
    """
    if not isinstance(value, list) or not value:
        raise invalid_field(name, f"{name} must be a list of one message or more.")
    return tuple(
        block for index, item in enumerate(value) for block in _message(f"{name}[{index}]", item)
    )


def _message(path: str, value: object) -> tuple[Block, ...]:
    if not isinstance(value, dict):
        raise invalid_field(path, f"{path} must be an object with role and content.")
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise invalid_field(path, f"{path}.role must be user, assistant or system.")
    content = value.get("content")
    if content == []:
        raise invalid_field(path, f"{path}.content must hold a block.")
    return _content(f"{path}.content", _ROLES[role], content)


def _content(path: str, role: prompt_pb2.Role.ValueType, value: object) -> tuple[Block, ...]:
    if isinstance(value, str):
        return (TextBlock(path, role, field_types.text(path, value)),)
    if not isinstance(value, list):
        raise invalid_field(path, f"{path} must be a string or a list of blocks.")
    blocks = [_block(f"{path}[{index}]", role, item) for index, item in enumerate(value)]
    return tuple(block for block in blocks if block is not None)


def _block(path: str, role: prompt_pb2.Role.ValueType, value: object) -> Block | None:
    if not isinstance(value, dict):
        raise invalid_field(path, f"{path} must be an object with a type.")
    match _type(path, role, value.get("type")):
        case "text":
            return TextBlock(path, role, _text(path, "text", value))
        case "tool_use":
            return _tool_use(path, value)
        case "tool_result":
            return _tool_result(path, value)
        case _:
            return None


def _type(path: str, role: prompt_pb2.Role.ValueType, value: object) -> str:
    if isinstance(value, str) and value in _TYPES[role]:
        return value
    if value in _UNSUPPORTED_TYPES:
        message = f"{path} has the type {value}, and the model takes only text."
        raise invalid_field(path, message)
    known = [name for name in _TYPES[role] if name != "redacted_thinking"]
    words = " or ".join([", ".join(known[:-1]), known[-1]] if known[1:] else known)
    raise invalid_field(path, f"{path}.type must be {words}.")


def _tool_use(path: str, value: dict[str, object]) -> ToolUseBlock:
    arguments = value.get("input")
    if not isinstance(arguments, dict):
        raise invalid_field(path, f"{path}.input must be an object.")
    return ToolUseBlock(
        path,
        _text(path, "id", value),
        _text(path, "name", value),
        to_json_text(f"{path}.input", arguments),
    )


def _tool_result(path: str, value: dict[str, object]) -> ToolResultBlock:
    content = value.get("content")
    parts = _content(f"{path}.content", prompt_pb2.ROLE_TOOL, "" if content is None else content)
    text = join_texts(parts)
    is_error = value.get("is_error")
    if is_error is not None and field_types.boolean(f"{path}.is_error", is_error):
        # The contract has no mark for it, and the model must not take it for a success.
        text = f"Error: {text}"
    return ToolResultBlock(path, _text(path, "tool_use_id", value), text)


def join_texts(blocks: tuple[Block, ...]) -> str:
    """Return the text blocks as one text, joined by line breaks as those of OpenAI's chats are."""
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock) and block.text)


def _text(path: str, key: str, value: dict[str, object]) -> str:
    return field_types.text(f"{path}.{key}", value.get(key))
