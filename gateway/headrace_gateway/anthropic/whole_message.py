"""Joins the events of an answer, so that a whole one is what its stream adds up to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace_gateway.anthropic.events import (
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    TextDelta,
    ThinkingDelta,
)
from headrace_gateway.anthropic.message import Content, MessagesAnswer, Text, Thinking, ToolUse
from headrace_gateway.anthropic.partial_json import complete_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace_gateway.anthropic.events import Delta, Event


class WholeMessage:
    """Takes the events of one answer in order."""

    def __init__(self) -> None:
        self._start: MessagesAnswer | None = None
        self._end: MessageDelta | None = None
        self._content: list[Content] = []
        self._pieces: list[str] = []
        self._block: Content | None = None

    def add(self, events: Iterable[Event]) -> None:
        """Take events."""
        for event in events:
            self._add(event)

    def answer(self) -> MessagesAnswer:
        """Return the answer, whose events must all have been taken."""
        assert self._start is not None
        assert self._end is not None
        stop, usage = self._end.delta, self._end.usage
        return msgspec.structs.replace(
            self._start,
            content=self._content,
            stop_reason=stop.stop_reason,
            stop_sequence=stop.stop_sequence,
            usage=usage,
        )

    def _add(self, event: Event) -> None:
        match event:
            case MessageStart():
                self._start = event.message
            case ContentBlockStart():
                self._block, self._pieces = event.content_block, []
            case ContentBlockDelta():
                self._pieces.append(_characters(event.delta))
            case ContentBlockStop():
                assert self._block is not None
                self._content.append(_filled(self._block, "".join(self._pieces)))
            case MessageDelta():
                self._end = event
            case _:
                pass


def _characters(delta: Delta) -> str:
    match delta:
        case TextDelta():
            return delta.text
        case ThinkingDelta():
            return delta.thinking
        case InputJsonDelta():
            return delta.partial_json
        case _:
            return ""


def _filled(block: Content, characters: str) -> Content:
    match block:
        case Text():
            return Text(characters)
        case Thinking():
            return Thinking(characters)
        case ToolUse():
            return ToolUse(block.id, block.name, msgspec.Raw(complete_object(characters).encode()))
