"""The answer of /v1/messages: its content, why it ended, its token counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import stopping_pb2

if TYPE_CHECKING:
    from headrace_gateway.openai.answer import TokenCounts

_STOP_REASONS = {
    stopping_pb2.FINISH_REASON_END_OF_TEXT: "end_turn",
    stopping_pb2.FINISH_REASON_STOP_SEQUENCE: "stop_sequence",
    stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS: "max_tokens",
    stopping_pb2.FINISH_REASON_CONTEXT_LENGTH: "model_context_window_exceeded",
    stopping_pb2.FINISH_REASON_TIME_LIMIT: "max_tokens",
    stopping_pb2.FINISH_REASON_TOOL_CALLS: "tool_use",
}


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """What the model said."""

    text: str


class Thinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    """What the model thought before. Nothing is signed, so that the signature is empty."""

    thinking: str
    signature: str = ""


class ToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A call; its input is a JSON object as the model wrote it."""

    id: str
    name: str
    input: msgspec.Raw


Content = Text | Thinking | ToolUse


class ThinkingTokens(msgspec.Struct, frozen=True):
    """Those of the output that were the thinking."""

    thinking_tokens: int


class MessageUsage(msgspec.Struct, frozen=True):
    """Token counts; the prompt is what was computed and what was read from the cache."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens


class StopInfo(msgspec.Struct, frozen=True):
    """Why an answer ended; the sequence with `stop_sequence` only."""

    stop_reason: str | None = None
    stop_sequence: str | None = None


class MessagesAnswer(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    """A whole answer, or the beginning of one."""

    id: str
    role: str
    model: str
    content: list[Content]
    stop_reason: str | None
    stop_sequence: str | None
    usage: MessageUsage


class TokenCount(msgspec.Struct, frozen=True):
    """The answer of /v1/messages/count_tokens."""

    input_tokens: int


def message_usage(counts: TokenCounts) -> MessageUsage:
    """Return counts under Anthropic's names. What is kept for others costs nothing extra."""
    thinking = ThinkingTokens(counts.reasoning)
    return MessageUsage(counts.prompt - counts.cached, 0, counts.cached, counts.output, thinking)


def stop_info(finish: stopping_pb2.Finish) -> StopInfo:
    """Return the end of an answer; a reason that is not known yet is the end of a turn."""
    reason = _STOP_REASONS.get(finish.reason, "end_turn")
    return StopInfo(reason, finish.stop_sequence or None)
