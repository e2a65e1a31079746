"""What both kinds of response are made of: finish reasons, token counts, a whole answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import stopping_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import inference_service_pb2

_FINISH_REASONS = {
    stopping_pb2.FINISH_REASON_END_OF_TEXT: "stop",
    stopping_pb2.FINISH_REASON_STOP_SEQUENCE: "stop",
    stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS: "length",
    stopping_pb2.FINISH_REASON_CONTEXT_LENGTH: "length",
    stopping_pb2.FINISH_REASON_TIME_LIMIT: "length",
}


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """No prompt token comes from a cache: the server has none."""

    cached_tokens: int = 0


class Usage(msgspec.Struct, frozen=True):
    """Token counts under OpenAI's names."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails = PromptTokensDetails()


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts that can be added up."""

    prompt: int = 0
    output: int = 0

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(self.prompt + other.prompt, self.output + other.output)

    def usage(self) -> Usage:
        """Return the counts under OpenAI's names."""
        return Usage(self.prompt, self.output, self.prompt + self.output)


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """The answer to one prompt."""

    text: str
    finish_reason: str
    counts: TokenCounts


@dataclass(frozen=True, slots=True)
class Identity:
    """What all chunks of a response share: id, time of creation, name of the model."""

    id: str
    created: int
    model: str


def finish_reason(reason: stopping_pb2.FinishReason.ValueType) -> str:
    """Return OpenAI's word for a finish reason; one that is not known yet is a stop."""
    return _FINISH_REASONS.get(reason, "stop")


def token_counts(usage: inference_service_pb2.Usage) -> TokenCounts:
    """Return the counts of the contract."""
    return TokenCounts(usage.prompt_token_count, usage.output_token_count)


def join_responses(responses: Iterable[inference_service_pb2.GenerateResponse]) -> WholeAnswer:
    """Join all responses of a call that ended well."""
    text: list[str] = []
    reason: stopping_pb2.FinishReason.ValueType = stopping_pb2.FINISH_REASON_UNSPECIFIED
    counts = TokenCounts()
    for response in responses:
        for delta in response.deltas:
            text.append(delta.text)
            if delta.HasField("finish"):
                reason = delta.finish.reason
        if response.HasField("usage"):
            counts = token_counts(response.usage)
    return WholeAnswer("".join(text), finish_reason(reason), counts)
