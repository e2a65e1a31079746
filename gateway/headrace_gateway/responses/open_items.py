"""Items of the output while they are made: each tells its pieces as events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace_gateway.responses import events
from headrace_gateway.responses.response import (
    ItemStatus,
    OutputCall,
    OutputItem,
    OutputMessage,
    OutputReasoning,
    OutputText,
    ReasoningText,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace_gateway.openai.logprobs import TokenLogprob


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item is.

    Args:
        item_id: unique.
        index: that among the items.
        numbers: of the events.
    """

    item_id: str
    index: int
    numbers: Iterator[int]


class OpenItem(Protocol):
    """An item that is not over."""

    def begin(self) -> list[events.Event]:
        """Return the events of its beginning."""

    def end(self, status: ItemStatus) -> list[events.Event]:
        """Return the events of its end."""

    def item(self, status: ItemStatus) -> OutputItem:
        """Return the item as it is now."""


class OpenMessage:
    """A message of the assistant."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []

    def begin(self) -> list[events.Event]:
        """Return the events of its beginning."""
        message = OutputMessage(self._place.item_id, "in_progress", [])
        return [_added(self._place, message), _part_added(self._place, OutputText(""))]

    def add(self, text: str, logprobs: Sequence[TokenLogprob]) -> events.Event:
        """Add to the text and return the event of that."""
        self._text.append(text)
        self._logprobs += logprobs
        at = self._place
        return events.TextDelta(
            sequence_number=next(at.numbers),
            item_id=at.item_id,
            output_index=at.index,
            delta=text,
            logprobs=list(logprobs),
        )

    def end(self, status: ItemStatus) -> list[events.Event]:
        """Return the events of its end."""
        at, part = self._place, self._part()
        done = events.TextDone(
            sequence_number=next(at.numbers),
            item_id=at.item_id,
            output_index=at.index,
            text=part.text,
            logprobs=part.logprobs,
        )
        return [done, _part_done(at, part), _done(at, self.item(status))]

    def item(self, status: ItemStatus) -> OutputMessage:
        """Return the item as it is now."""
        return OutputMessage(self._place.item_id, status, [self._part()])

    def _part(self) -> OutputText:
        return OutputText("".join(self._text), logprobs=self._logprobs)


class OpenReasoning:
    """The reasoning."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._text: list[str] = []

    def begin(self) -> list[events.Event]:
        """Return the events of its beginning."""
        item = OutputReasoning(self._place.item_id, "in_progress", [])
        return [_added(self._place, item), _part_added(self._place, ReasoningText(""))]

    def add(self, text: str) -> events.Event:
        """Add to the text and return the event of that."""
        self._text.append(text)
        at = self._place
        return events.ReasoningDelta(
            sequence_number=next(at.numbers), item_id=at.item_id, output_index=at.index, delta=text
        )

    def end(self, status: ItemStatus) -> list[events.Event]:
        """Return the events of its end."""
        at, part = self._place, ReasoningText("".join(self._text))
        done = events.ReasoningDone(
            sequence_number=next(at.numbers),
            item_id=at.item_id,
            output_index=at.index,
            text=part.text,
        )
        return [done, _part_done(at, part), _done(at, self.item(status))]

    def item(self, status: ItemStatus) -> OutputReasoning:
        """Return the item as it is now."""
        return OutputReasoning(self._place.item_id, status, [ReasoningText("".join(self._text))])


class OpenCall:
    """A call of a function."""

    def __init__(self, place: Place, call_id: str, name: str) -> None:
        self._place = place
        self._call_id = call_id
        self._name = name
        self._arguments: list[str] = []

    def begin(self) -> list[events.Event]:
        """Return the events of its beginning."""
        return [_added(self._place, self.item("in_progress"))]

    def add(self, arguments: str) -> events.Event:
        """Add to the arguments and return the event of that."""
        self._arguments.append(arguments)
        at = self._place
        return events.ArgumentsDelta(
            sequence_number=next(at.numbers),
            item_id=at.item_id,
            output_index=at.index,
            delta=arguments,
        )

    def end(self, status: ItemStatus) -> list[events.Event]:
        """Return the events of its end."""
        at, item = self._place, self.item(status)
        done = events.ArgumentsDone(
            sequence_number=next(at.numbers),
            item_id=at.item_id,
            output_index=at.index,
            name=item.name,
            arguments=item.arguments,
        )
        return [done, _done(at, item)]

    def item(self, status: ItemStatus) -> OutputCall:
        """Return the item as it is now."""
        arguments = "".join(self._arguments)
        return OutputCall(self._place.item_id, status, self._call_id, self._name, arguments)


def _added(at: Place, item: OutputItem) -> events.Event:
    return events.ItemAdded(sequence_number=next(at.numbers), output_index=at.index, item=item)


def _done(at: Place, item: OutputItem) -> events.Event:
    return events.ItemDone(sequence_number=next(at.numbers), output_index=at.index, item=item)


def _part_added(at: Place, part: OutputText | ReasoningText) -> events.Event:
    return events.PartAdded(
        sequence_number=next(at.numbers), item_id=at.item_id, output_index=at.index, part=part
    )


def _part_done(at: Place, part: OutputText | ReasoningText) -> events.Event:
    return events.PartDone(
        sequence_number=next(at.numbers), item_id=at.item_id, output_index=at.index, part=part
    )
