"""Collects what a parser makes of an output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_server.text.delta import ToolCallPiece

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a piece of an output is: reasoning, then text, then pieces of calls."""

    reasoning: str = ""
    text: str = ""
    tool_calls: tuple[ToolCallPiece, ...] = ()


class Sink:
    """What was made of the output since the last `take`.

    Args:
        new_id: makes the ids of calls.

    Attributes:
        num_calls: those that were begun.
        num_whole_calls: those among them whose arguments are complete.
    """

    def __init__(self, new_id: Callable[[], str]) -> None:
        self.num_calls = 0
        self.num_whole_calls = 0
        self._new_id = new_id
        self._reasoning: list[str] = []
        self._text: list[str] = []
        self._calls: list[_Call] = []
        self._before: list[Parsed] = []

    def add_reasoning(self, text: str) -> None:
        """Add to the reasoning."""
        self._cut_behind_calls()
        self._reasoning.append(text)

    def add_text(self, text: str) -> None:
        """Add to the text."""
        self._cut_behind_calls()
        self._text.append(text)

    def begin_call(self, name: str) -> None:
        """Begin the next call."""
        self._calls.append(_Call(self.num_calls, self._new_id(), name))
        self.num_calls += 1

    def add_arguments(self, text: str) -> None:
        """Add to the arguments of the call that was begun last."""
        if not self._calls:
            self._calls.append(_Call(self.num_calls - 1, "", ""))
        self._calls[-1].arguments.append(text)

    def end_call(self) -> None:
        """Take note that the call that was begun last is whole."""
        self.num_whole_calls += 1

    def take(self) -> Sequence[Parsed]:
        """Return what is new since the last time, in order: text behind a call begins another."""
        if not (self._reasoning or self._text or self._calls):
            return ()
        before, self._before = self._before, []
        return [*before, self._take_last()]

    def _cut_behind_calls(self) -> None:
        if self._calls:
            self._before.append(self._take_last())

    def _take_last(self) -> Parsed:
        calls = tuple(
            ToolCallPiece(call.index, call.id, call.name, "".join(call.arguments))
            for call in self._calls
        )
        parsed = Parsed("".join(self._reasoning), "".join(self._text), calls)
        self._reasoning, self._text, self._calls = [], [], []
        return parsed


class _Call:
    def __init__(self, index: int, call_id: str, name: str) -> None:
        self.index = index
        self.id = call_id
        self.name = name
        self.arguments: list[str] = []
