"""The tools of a chat: what is offered, what may be called, and what was called before."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from headrace.v1 import tool_pb2
from headrace_server.errors import InvalidFieldError
from headrace_server.grammar.sizes import MAX_CONSTRAINT_BYTES
from headrace_server.grammar.spec import ToolCallsConstraint, ToolSignature
from headrace_server.rpc.convert.checks import require
from headrace_server.text.tools import Tool, ToolCall, ToolMode, ToolUse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.v1 import prompt_pb2

# As many as OpenAI's API has; all of them are a part of the prompt.
MAX_TOOLS: Final = 128
MAX_CALLS_OF_MESSAGE: Final = 128
# Far more than a model makes use of; all are read before anything is tokenized.
MAX_DESCRIPTION_CHARACTERS: Final = 16 * 1024
# The largest contexts have room for little more; reading JSON keeps others waiting.
MAX_ARGUMENTS_BYTES: Final = 512 * 1024
# Ids are made by servers, and are shorter.
MAX_CALL_ID_CHARACTERS: Final = 128

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_MODES: Final[Mapping[int, ToolMode]] = {
    tool_pb2.TOOL_CHOICE_MODE_UNSPECIFIED: ToolMode.AUTO,
    tool_pb2.TOOL_CHOICE_MODE_AUTO: ToolMode.AUTO,
    tool_pb2.TOOL_CHOICE_MODE_NONE: ToolMode.NONE,
    tool_pb2.TOOL_CHOICE_MODE_REQUIRED: ToolMode.REQUIRED,
}


def to_tool_use(chat: prompt_pb2.Chat) -> ToolUse:
    """Check the tools of a chat, but for the JSON in them.

    Raises:
        InvalidFieldError: one is malformed or too large, or the choice fits none.
    """
    require(len(chat.tools) <= MAX_TOOLS, "chat.tools", f"must hold at most {MAX_TOOLS} tools")
    tools = tuple(_to_tool(tool, index) for index, tool in enumerate(chat.tools))
    names = [tool.name for tool in tools]
    for index, name in enumerate(names):
        is_new = name not in names[:index]
        require(is_new, f"chat.tools[{index}].name", f'must differ from other names than "{name}"')
    num_bytes = sum(len(tool.parameters_json.encode()) for tool in tools)
    require(
        num_bytes <= MAX_CONSTRAINT_BYTES,
        "chat.tools",
        f"must have schemas of at most {MAX_CONSTRAINT_BYTES} bytes together",
    )
    allows_parallel_calls = not chat.HasField("parallel_tool_calls") or chat.parallel_tool_calls
    return ToolUse(tools, _to_choice(chat.tool_choice, names), allows_parallel_calls)


def to_tool_calls_constraint(tool_use: ToolUse) -> ToolCallsConstraint | None:
    """Return the form of an answer that must be calls; None where it need not."""
    if not tool_use.is_forced:
        return None
    tools = (ToolSignature(t.name, t.parameters_json) for t in tool_use.callable_tools)
    return ToolCallsConstraint(tuple(tools), tool_use.max_calls)


def to_tool_calls(calls: Sequence[tool_pb2.ToolCall], field: str) -> tuple[ToolCall, ...]:
    """Check the calls that a message has made.

    Raises:
        InvalidFieldError: one is malformed, or there are too many.
    """
    require(
        len(calls) <= MAX_CALLS_OF_MESSAGE, field, f"must hold at most {MAX_CALLS_OF_MESSAGE} calls"
    )
    for index, call in enumerate(calls):
        check_call_id(call.id, f"{field}[{index}].id")
        _check_name(call.name, f"{field}[{index}].name")
        require(
            len(call.arguments_json.encode()) <= MAX_ARGUMENTS_BYTES,
            f"{field}[{index}].arguments_json",
            f"must have at most {MAX_ARGUMENTS_BYTES} bytes",
        )
    return tuple(ToolCall(call.id, call.name, call.arguments_json) for call in calls)


def check_call_id(call_id: str, field: str) -> None:
    """Check the length of the id of a call.

    Raises:
        InvalidFieldError: it is too long.
    """
    require(
        len(call_id) <= MAX_CALL_ID_CHARACTERS,
        field,
        f"must have at most {MAX_CALL_ID_CHARACTERS} characters",
    )


def _to_tool(tool: tool_pb2.Tool, index: int) -> Tool:
    field = f"chat.tools[{index}]"
    _check_name(tool.name, f"{field}.name")
    require(
        len(tool.description) <= MAX_DESCRIPTION_CHARACTERS,
        f"{field}.description",
        f"must have at most {MAX_DESCRIPTION_CHARACTERS} characters",
    )
    return Tool(tool.name, tool.description, tool.parameters_json)


def _check_name(name: str, field: str) -> None:
    require(
        _NAME.fullmatch(name) is not None,
        field,
        "must have from 1 to 64 letters, digits, underscores and hyphens of ASCII",
    )


def _to_choice(choice: tool_pb2.ToolChoice, names: Sequence[str]) -> ToolMode | str:
    if choice.WhichOneof("choice") == "tool_name":
        field = "chat.tool_choice.tool_name"
        require(choice.tool_name in names, field, "must be the name of one of the tools")
        return choice.tool_name
    mode = _MODES.get(choice.mode)
    if mode is None:
        raise InvalidFieldError(
            "chat.tool_choice.mode",
            "chat.tool_choice.mode must be one of those of ToolChoiceMode.",
        )
    require(
        bool(names) or mode is not ToolMode.REQUIRED,
        "chat.tool_choice",
        "must not require calls without tools",
    )
    return mode
