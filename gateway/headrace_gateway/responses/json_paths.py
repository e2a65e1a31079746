"""The JSON paths behind the fields of the contract."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace_gateway.openai.json_paths import find_json_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_gateway.responses.input_items import Turn

_MESSAGE = re.compile(r"chat\.messages\[(\d+)\](?:\.tool_calls\[(\d+)\])?(?:\.(\w+))?")
_MESSAGE_KEYS = {"id": "call_id", "tool_call_id": "call_id", "arguments_json": "arguments"}
_PATHS = (
    (re.compile(r"chat\.tools(\[\d+\])\.parameters_json"), r"tools\1.parameters"),
    (re.compile(r"chat\.tools(\[\d+\])?(\.\w+)?"), r"tools\1\2"),
    (re.compile(r"chat\.tool_choice\.tool_name"), "tool_choice.name"),
    (re.compile(r"chat\.tool_choice(\.mode)?"), "tool_choice"),
    (re.compile(r"chat\.parallel_tool_calls"), "parallel_tool_calls"),
    (re.compile(r"chat\.template_arguments_json"), "chat_template_kwargs"),
    (re.compile(r"chat(\.messages)?"), "input"),
)


def chat_json_path(path: str, turns: Sequence[Turn]) -> str | None:
    """Return the JSON path of a field of the chat; None for other fields.

    ``chat.messages[0].content`` gives ``input[0].content``.
    """
    if (match := _MESSAGE.fullmatch(path)) is not None:
        return _message_path(turns[int(match[1])], match[2], match[3])
    return find_json_path(_PATHS, path)


def _message_path(turn: Turn, call: str | None, key: str | None) -> str:
    path = turn.call_paths[int(call)] if call is not None else turn.path
    if key is None or "[" not in path:
        return path
    if key == "content" and turn.message.tool_call_id:
        key = "output"
    return f"{path}.{_MESSAGE_KEYS.get(key, key)}"
