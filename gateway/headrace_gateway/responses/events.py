"""The events of a streamed response; each has its place in the stream as its number."""

from __future__ import annotations

import msgspec

from headrace_gateway.openai.logprobs import TokenLogprob
from headrace_gateway.responses.response import OutputItem, OutputText, ReasoningText, Response


class Event(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    """What all events have."""

    sequence_number: int


class ResponseCreated(Event, frozen=True, tag="response.created"):
    """The request was taken."""

    response: Response


class ResponseInProgress(Event, frozen=True, tag="response.in_progress"):
    """The answer is being made."""

    response: Response


class ResponseCompleted(Event, frozen=True, tag="response.completed"):
    """The answer is whole."""

    response: Response


class ResponseIncomplete(Event, frozen=True, tag="response.incomplete"):
    """The answer was cut."""

    response: Response


class ResponseFailed(Event, frozen=True, tag="response.failed"):
    """The answer ends with an error."""

    response: Response


class ErrorEvent(Event, frozen=True, tag="error"):
    """What the error is."""

    code: str
    message: str
    param: str | None


class ItemAdded(Event, frozen=True, tag="response.output_item.added"):
    """An item begins."""

    output_index: int
    item: OutputItem


class ItemDone(Event, frozen=True, tag="response.output_item.done"):
    """An item is over."""

    output_index: int
    item: OutputItem


class ItemEvent(Event, frozen=True, kw_only=True):
    """What events within an item have."""

    item_id: str
    output_index: int


class ContentEvent(ItemEvent, frozen=True, kw_only=True):
    """What events within the content of an item have, which has one part."""

    content_index: int = 0


class PartAdded(ContentEvent, frozen=True, tag="response.content_part.added"):
    """The content begins."""

    part: OutputText | ReasoningText


class PartDone(ContentEvent, frozen=True, tag="response.content_part.done"):
    """The content is over."""

    part: OutputText | ReasoningText


class TextDelta(ContentEvent, frozen=True, tag="response.output_text.delta"):
    """The next characters of a text."""

    delta: str
    logprobs: list[TokenLogprob]


class TextDone(ContentEvent, frozen=True, tag="response.output_text.done"):
    """A whole text."""

    text: str
    logprobs: list[TokenLogprob]


class ReasoningDelta(ContentEvent, frozen=True, tag="response.reasoning_text.delta"):
    """The next characters of the reasoning."""

    delta: str


class ReasoningDone(ContentEvent, frozen=True, tag="response.reasoning_text.done"):
    """The whole reasoning."""

    text: str


class ArgumentsDelta(ItemEvent, frozen=True, tag="response.function_call_arguments.delta"):
    """The next characters of the arguments of a call."""

    delta: str


class ArgumentsDone(ItemEvent, frozen=True, tag="response.function_call_arguments.done"):
    """The whole arguments of a call."""

    name: str
    arguments: str
