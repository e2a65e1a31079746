"""Calls of tools in answers to chats: whole, or in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.v1 import tool_pb2
    from headrace_gateway.openai.answer import WholeCall


class Function(msgspec.Struct, frozen=True):
    """The function that is called; its arguments are JSON text."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True, tag_field="type", tag="function"):
    """One call."""

    id: str
    function: Function


class FunctionDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The function's name with the first piece of a call, or the next part of its arguments."""

    arguments: str
    name: str | None = None


class ToolCallDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The new piece of a call; only the first one has its id and type."""

    index: int
    function: FunctionDelta
    id: str | None = None
    type: str | None = None


def tool_call(call: WholeCall) -> ToolCall:
    """Return a whole call in OpenAI's shape."""
    return ToolCall(call.id, Function(call.name, call.arguments))


def tool_call_deltas(message: tool_pb2.ToolCallDelta) -> Iterator[ToolCallDelta]:
    """Yield a piece of a call in OpenAI's shape, in which the first has no arguments yet."""
    if message.id:
        function = FunctionDelta("", message.name)
        yield ToolCallDelta(message.index, function, message.id, "function")
    if message.arguments_json:
        yield ToolCallDelta(message.index, FunctionDelta(message.arguments_json))
