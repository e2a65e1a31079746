"""Turns the responses of the server into the events of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import stopping_pb2
from headrace_gateway.anthropic.events import (
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    Event,
    InputJsonDelta,
    MessageDelta,
    MessageStart,
    MessageStop,
    Ping,
    SignatureDelta,
    TextDelta,
    ThinkingDelta,
)
from headrace_gateway.anthropic.message import (
    Content,
    MessagesAnswer,
    Text,
    Thinking,
    ToolUse,
    message_usage,
    stop_info,
)
from headrace_gateway.openai.answer import Identity, TokenCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.v1 import inference_service_pb2 as pb
    from headrace.v1 import tool_pb2

NO_INPUT = msgspec.Raw(b"{}")


class MessageEvents:
    """Makes the events of one answer: blocks one after the other, thinking and text before calls.

    What the model says when it has begun to call comes last, since a call that runs cannot be
    interrupted by words.

    Args:
        identity: id and model of the answer.
    """

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._is_started = False
        self._open: Content | None = None
        self._num_blocks = 0
        self._late_text: list[str] = []
        self._finish = stopping_pb2.Finish()

    def opening(self, prompt_index: int) -> list[Event]:
        """Return nothing: the first event needs the counts of the prompt."""
        return []

    def chunks(self, prompt_index: int, response: pb.GenerateResponse) -> list[Event]:
        """Return the events of a response."""
        events = [] if self._is_started else [self._start(response.prompt)]
        for delta in response.deltas:
            events += self._reasoning(delta.reasoning_text)
            events += self._text(delta.text)
            for piece in delta.tool_calls:
                events += self._call(piece)
            if delta.HasField("finish"):
                self._finish = delta.finish
        return events

    def closing(self, counts: TokenCounts) -> list[Event]:
        """Return what ends the answer."""
        events: list[Event] = []
        if self._late_text:
            events += self._begin(Text(""))
            events.append(self._delta(TextDelta("".join(self._late_text))))
        events += self._end()
        events.append(MessageDelta(stop_info(self._finish), message_usage(counts)))
        return [*events, MessageStop()]

    def _start(self, prompt: pb.PromptInfo) -> Event:
        self._is_started = True
        counts = TokenCounts(prompt=prompt.token_count, cached=prompt.cached_token_count)
        it, usage = self._identity, message_usage(counts)
        return MessageStart(MessagesAnswer(it.id, "assistant", it.model, [], None, None, usage))

    def _reasoning(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if not isinstance(self._open, Thinking):
            yield from self._begin(Thinking(""))
        yield self._delta(ThinkingDelta(text))

    def _text(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if isinstance(self._open, ToolUse):
            self._late_text.append(text)
            return
        if not isinstance(self._open, Text):
            yield from self._begin(Text(""))
        yield self._delta(TextDelta(text))

    def _call(self, piece: tool_pb2.ToolCallDelta) -> Iterator[Event]:
        if piece.id:
            yield from self._begin(ToolUse(piece.id, piece.name, NO_INPUT))
        if piece.arguments_json:
            yield self._delta(InputJsonDelta(piece.arguments_json))

    def _begin(self, block: Content) -> Iterator[Event]:
        yield from self._end()
        self._open = block
        self._num_blocks += 1
        yield ContentBlockStart(self._num_blocks - 1, block)
        if self._num_blocks == 1:
            yield Ping()  # where Anthropic sends one

    def _end(self) -> Iterator[Event]:
        if isinstance(self._open, Thinking):
            yield self._delta(SignatureDelta())
        if self._open is not None:
            yield ContentBlockStop(self._num_blocks - 1)
        self._open = None

    def _delta(self, delta: TextDelta | ThinkingDelta | SignatureDelta | InputJsonDelta) -> Event:
        return ContentBlockDelta(self._num_blocks - 1, delta)
