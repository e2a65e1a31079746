"""The output of a response while it is made: items, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_gateway.openai.answer import finish_reason
from headrace_gateway.openai.logprobs import TokenLogprob, choice_logprobs
from headrace_gateway.responses.open_items import OpenCall, OpenMessage, OpenReasoning, Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.v1 import tool_pb2
    from headrace.v1.inference_service_pb2 import CandidateDelta
    from headrace_gateway.responses.events import Event
    from headrace_gateway.responses.open_items import OpenItem
    from headrace_gateway.responses.response import ItemStatus, OutputItem


class Output:
    """Sorts what an answer is made of into items, and tells it as events.

    Args:
        suffix: of the ids of all items, unique.
        numbers: of the events.

    Attributes:
        items: those that are over.
        is_cut: whether the answer ended before the model ended it.
    """

    def __init__(self, suffix: str, numbers: Iterator[int]) -> None:
        self._suffix = suffix
        self._numbers = numbers
        self._open: OpenItem | None = None
        self._logprobs: list[TokenLogprob] = []  # those that wait for a text
        self.items: list[OutputItem] = []
        self.is_cut = False

    def add(self, delta: CandidateDelta) -> list[Event]:
        """Add the new piece of the answer."""
        told: list[Event] = []
        told += self._add_reasoning(delta.reasoning_text)
        if (logprobs := choice_logprobs(delta.logprobs)) is not None:
            # Here they are a part of the text, to which its end adds nothing.
            self._logprobs += [each for each in logprobs.content if each.bytes]
        told += self._add_text(delta.text)
        for piece in delta.tool_calls:
            told += self._add_call(piece)
        if delta.HasField("finish"):
            told += self._finish(finish_reason(delta.finish.reason))
        return told

    def current_items(self) -> list[OutputItem]:
        """Return all items; the one that is not over is incomplete."""
        return self.items + ([] if self._open is None else [self._open.item("incomplete")])

    def _add_reasoning(self, text: str) -> list[Event]:
        if not text:
            return []
        item, told = self._open, []
        if not isinstance(item, OpenReasoning):
            item = OpenReasoning(self._place("rs"))
            told = self._begin(item)
        return [*told, item.add(text)]

    def _add_text(self, text: str) -> list[Event]:
        item, told = self._open, []
        if not isinstance(item, OpenMessage):
            if not text:
                return []
            told = self._end("completed")
            item = OpenMessage(self._place("msg"))
            told += self._begin(item)
        if not text and not self._logprobs:
            return told
        logprobs, self._logprobs = self._logprobs, []
        return [*told, item.add(text, logprobs)]

    def _add_call(self, piece: tool_pb2.ToolCallDelta) -> list[Event]:
        told: list[Event] = []
        if piece.id:
            told += self._end("completed")
            told += self._begin(OpenCall(self._place("fc"), piece.id, piece.name))
        if piece.arguments_json:
            assert isinstance(self._open, OpenCall)
            told.append(self._open.add(piece.arguments_json))
        return told

    def _finish(self, reason: str) -> list[Event]:
        self.is_cut = reason == "length"
        told: list[Event] = []
        if self._open is None:
            told += self._begin(OpenMessage(self._place("msg")))  # an answer without words
        return told + self._end("incomplete" if self.is_cut else "completed")

    def _begin(self, item: OpenItem) -> list[Event]:
        told = self._end("completed")
        self._open = item
        return told + item.begin()

    def _end(self, status: ItemStatus) -> list[Event]:
        if self._open is None:
            return []
        item, self._open = self._open, None
        self.items.append(item.item(status))
        return item.end(status)

    def _place(self, prefix: str) -> Place:
        index = len(self.items) + (self._open is not None)
        return Place(f"{prefix}_{self._suffix}{index:02x}", index, self._numbers)
