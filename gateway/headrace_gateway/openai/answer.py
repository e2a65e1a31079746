"""What both kinds of response are made of: finish reasons, token counts, a whole answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import stopping_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import inference_service_pb2, logprobs_pb2

_FINISH_REASONS = {
    stopping_pb2.FINISH_REASON_END_OF_TEXT: "stop",
    stopping_pb2.FINISH_REASON_STOP_SEQUENCE: "stop",
    stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS: "length",
    stopping_pb2.FINISH_REASON_CONTEXT_LENGTH: "length",
    stopping_pb2.FINISH_REASON_TIME_LIMIT: "length",
    stopping_pb2.FINISH_REASON_TOOL_CALLS: "tool_calls",
}


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """The prompt tokens that did not need to be computed."""

    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Token counts under OpenAI's names."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts that can be added up; those of the cache are prompt tokens, too."""

    prompt: int = 0
    output: int = 0
    cached: int = 0

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(
            self.prompt + other.prompt, self.output + other.output, self.cached + other.cached
        )

    def usage(self) -> Usage:
        """Return the counts under OpenAI's names."""
        total = self.prompt + self.output
        return Usage(self.prompt, self.output, total, PromptTokensDetails(self.cached))


@dataclass(frozen=True, slots=True)
class WholeCandidate:
    """One answer to a prompt; `logprobs` are those of the contract, where they were asked for."""

    text: str
    finish_reason: str
    logprobs: tuple[logprobs_pb2.TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """All answers to one prompt, in order."""

    candidates: tuple[WholeCandidate, ...]
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


def token_counts(response: inference_service_pb2.GenerateResponse) -> TokenCounts:
    """Return what a response tells of the counts: they add up over all of a call."""
    return TokenCounts(
        response.usage.prompt_token_count,
        response.usage.output_token_count,
        response.prompt.cached_token_count,
    )


def join_responses(
    responses: Iterable[inference_service_pb2.GenerateResponse], num_candidates: int
) -> WholeAnswer:
    """Join all responses of a call that ended well."""
    texts: list[list[str]] = [[] for _ in range(num_candidates)]
    logprobs: list[list[logprobs_pb2.TokenLogprobs]] = [[] for _ in range(num_candidates)]
    reasons = [stopping_pb2.FINISH_REASON_UNSPECIFIED] * num_candidates
    counts = TokenCounts()
    for response in responses:
        counts += token_counts(response)
        for delta in response.deltas:
            texts[delta.candidate_index].append(delta.text)
            logprobs[delta.candidate_index].extend(delta.logprobs)
            if delta.HasField("finish"):
                reasons[delta.candidate_index] = delta.finish.reason
    candidates = tuple(
        WholeCandidate("".join(parts), finish_reason(reason), tuple(told))
        for parts, reason, told in zip(texts, reasons, logprobs, strict=True)
    )
    return WholeAnswer(candidates, counts)
