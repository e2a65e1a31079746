"""Parses the output of one candidate as it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_server.text.parsing.formats import CallsParser, ToolCallFormat
from headrace_server.text.parsing.reasoning import (
    ReasoningStart,
    ReasoningTags,
    read_reasoning,
    read_text,
)
from headrace_server.text.parsing.sink import Sink
from headrace_server.text.parsing.source import END, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace_server.text.parsing.sink import Parsed
    from headrace_server.text.parsing.source import Parse


@dataclass(frozen=True, slots=True)
class OutputForm:
    """What an output may hold.

    Args:
        tool_names: of the tools that may be called.
        call_format: that of calls; None where they are a JSON array and all of the output.
        max_calls: the output is over after so many; None has no limit.
        reasoning_tags: None where there is no reasoning.
        reasoning_start: where it is.
        new_id: makes the ids of calls.
    """

    tool_names: frozenset[str]
    call_format: ToolCallFormat | None
    max_calls: int | None
    reasoning_tags: ReasoningTags | None
    reasoning_start: ReasoningStart
    new_id: Callable[[], str]


class OutputParser:
    """Sorts an output into reasoning, text and calls; how it is cut makes no difference."""

    def __init__(self, form: OutputForm) -> None:
        self._form = form
        self._source = Source()
        self._sink = Sink(form.new_id)
        self._program = self._parse()
        next(self._program)

    @property
    def is_over(self) -> bool:
        """Whether there are as many calls as may be."""
        limit = self._form.max_calls
        return limit is not None and self._sink.num_whole_calls >= limit

    @property
    def has_only_whole_calls(self) -> bool:
        """Whether there are calls and all of them are whole."""
        return 0 < self._sink.num_calls == self._sink.num_whole_calls

    def feed(self, text: str) -> Sequence[Parsed]:
        """Take the next characters; those behind the last call that may be are dropped."""
        for character in text:
            if self.is_over:
                break
            self._program.send(character)
        return self._sink.take()

    def end(self) -> Sequence[Parsed]:
        """Take note of the end of the output."""
        if not self.is_over:
            self._program.send(END)
        return self._sink.take()

    def _parse(self) -> Parse[None]:
        form, source, sink = self._form, self._source, self._sink
        had_reasoning = False
        if form.reasoning_tags is not None:
            had_reasoning = yield from read_reasoning(
                source, sink, form.reasoning_tags, form.reasoning_start
            )
        calls = CallsParser(source, sink, form.tool_names)
        if not form.tool_names:
            yield from read_text(source, sink, skip_space=had_reasoning)
        elif form.call_format is None:
            yield from calls.parse_list()
        else:
            yield from calls.parse(form.call_format, skip_space=had_reasoning)
        while True:  # what comes after the end
            yield
