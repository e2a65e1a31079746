"""Parts the reasoning of a model from its answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from headrace_server.text.parsing.source import END
from headrace_server.text.parsing.text_passer import pass_text

if TYPE_CHECKING:
    from headrace_server.text.parsing.sink import Sink
    from headrace_server.text.parsing.source import Parse, Source


@dataclass(frozen=True, slots=True)
class ReasoningTags:
    """The texts before and after reasoning; they may be control tokens of a model."""

    opening: str
    closing: str


class ReasoningStart(Enum):
    """Where the reasoning of an output is."""

    OPEN = auto()
    """The prompt has opened it."""

    POSSIBLE = auto()
    """The output may begin with it."""

    NONE = auto()
    """There is none."""


def reasoning_start(tags: ReasoningTags, prompt: str, final_content: str | None) -> ReasoningStart:
    """Tell where reasoning is by the prompt.

    Args:
        tags: those of the model.
        prompt: the rendered chat.
        final_content: that of the message to be continued; None where a new one is begun.
    """
    if final_content is None:
        is_open = prompt.rstrip().endswith(tags.opening)
        return ReasoningStart.OPEN if is_open else ReasoningStart.POSSIBLE
    is_open = final_content.rfind(tags.opening) > final_content.rfind(tags.closing)
    return ReasoningStart.OPEN if is_open else ReasoningStart.NONE


def close_reasoning(tags: ReasoningTags, prompt: str) -> str:
    """Return a prompt with which no reasoning begins: what it has opened at its end is closed."""
    opened = prompt.rstrip()
    return f"{opened}\n\n{tags.closing}\n\n" if opened.endswith(tags.opening) else prompt


def read_reasoning(
    source: Source, sink: Sink, tags: ReasoningTags, start: ReasoningStart
) -> Parse[bool]:
    """Read the reasoning, where there is some, without the white space round it.

    Returns:
        Whether there was some.
    """
    if start is ReasoningStart.POSSIBLE:
        space = yield from source.skip_space()
        if not (yield from source.take(tags.opening)):
            source.put_back(space)
            return False
    elif start is ReasoningStart.NONE:
        return False
    yield from pass_text(source, sink.add_reasoning, (tags.closing,), skip_space=True)
    return True


def read_text(source: Source, sink: Sink, *, skip_space: bool) -> Parse[None]:
    """Read all that comes as text.

    Args:
        source: where it comes from.
        sink: is given it.
        skip_space: whether white space at the beginning is no text.
    """
    if skip_space:
        yield from source.skip_space()
    while (character := (yield from source.next())) != END:
        sink.add_text(character)
