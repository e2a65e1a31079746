"""The events of a streamed answer; each has the name that is its type."""

from __future__ import annotations

import msgspec

from headrace_gateway.anthropic.message import Content, MessagesAnswer, MessageUsage, StopInfo


class TextDelta(msgspec.Struct, frozen=True, tag_field="type", tag="text_delta"):
    """The next characters of a text."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, tag_field="type", tag="thinking_delta"):
    """The next characters of the thinking."""

    thinking: str


class SignatureDelta(msgspec.Struct, frozen=True, tag_field="type", tag="signature_delta"):
    """What ends the thinking."""

    signature: str = ""


class InputJsonDelta(msgspec.Struct, frozen=True, tag_field="type", tag="input_json_delta"):
    """The next characters of the input of a call."""

    partial_json: str


Delta = TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta


class MessageStart(msgspec.Struct, frozen=True, tag_field="type", tag="message_start"):
    """The beginning of an answer, without content."""

    message: MessagesAnswer


class ContentBlockStart(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_start"):
    """The beginning of a block, without characters."""

    index: int
    content_block: Content


class ContentBlockDelta(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_delta"):
    """The next characters of a block."""

    index: int
    delta: Delta


class ContentBlockStop(msgspec.Struct, frozen=True, tag_field="type", tag="content_block_stop"):
    """The end of a block."""

    index: int


class MessageDelta(msgspec.Struct, frozen=True, tag_field="type", tag="message_delta"):
    """The end of the content, with the counts of the whole answer."""

    delta: StopInfo
    usage: MessageUsage


class MessageStop(msgspec.Struct, frozen=True, tag_field="type", tag="message_stop"):
    """The end of the answer."""


class Ping(msgspec.Struct, frozen=True, tag_field="type", tag="ping"):
    """A sign of life."""


Event = (
    MessageStart
    | ContentBlockStart
    | ContentBlockDelta
    | ContentBlockStop
    | MessageDelta
    | MessageStop
    | Ping
)
