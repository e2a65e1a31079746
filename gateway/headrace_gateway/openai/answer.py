"""What both kinds of response are made of: finish reasons, token counts, a whole answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from headrace.v1 import stopping_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import logprobs_pb2
    from headrace.v1.inference_service_pb2 import CandidateDelta, GenerateResponse

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


class CompletionTokensDetails(msgspec.Struct, frozen=True):
    """The tokens of the answer up to the end of its reasoning."""

    reasoning_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Token counts under OpenAI's names."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts that can be added up; those of the cache are prompt tokens, too, and those
    of the reasoning output tokens.
    """

    prompt: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(
            self.prompt + other.prompt,
            self.output + other.output,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )

    def usage(self) -> Usage:
        """Return the counts under OpenAI's names."""
        return Usage(
            self.prompt,
            self.output,
            self.prompt + self.output,
            PromptTokensDetails(self.cached),
            CompletionTokensDetails(self.reasoning),
        )


@dataclass(frozen=True, slots=True)
class WholeCall:
    """One call of a tool; `arguments` is JSON text, unless the answer was cut."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class WholeCandidate:
    """One answer to a prompt; `logprobs` and `token_ids` where they were asked for."""

    text: str
    finish_reason: str
    logprobs: tuple[logprobs_pb2.TokenLogprobs, ...] = ()
    reasoning: str = ""
    tool_calls: tuple[WholeCall, ...] = ()
    token_ids: tuple[int, ...] = ()
    stop_reason: str | int | None = None


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """All answers to one prompt, in order; `prompt_logprobs` where they were asked for."""

    candidates: tuple[WholeCandidate, ...]
    counts: TokenCounts
    prompt_logprobs: tuple[logprobs_pb2.TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Identity:
    """What all chunks of a response share: id, time of creation, name of the model."""

    id: str
    created: int
    model: str


def finish_reason(reason: stopping_pb2.FinishReason.ValueType) -> str:
    """Return OpenAI's word for a finish reason; one that is not known yet is a stop."""
    return _FINISH_REASONS.get(reason, "stop")


def stop_reason(finish: stopping_pb2.Finish) -> str | int | None:
    """Return the stop of the request that ended an answer, a text or a token id."""
    match finish.WhichOneof("matched"):
        case "stop_sequence":
            return finish.stop_sequence
        case "stop_token_id":
            return finish.stop_token_id
    return None


def token_counts(response: GenerateResponse) -> TokenCounts:
    """Return what a response tells of the counts: they add up over all of a call."""
    return TokenCounts(
        response.usage.prompt_token_count,
        response.usage.output_token_count,
        response.prompt.cached_token_count,
        response.usage.reasoning_token_count,
    )


def join_responses(responses: Iterable[GenerateResponse], num_candidates: int) -> WholeAnswer:
    """Join all responses of a call that ended well."""
    candidates = [_Candidate() for _ in range(num_candidates)]
    counts = TokenCounts()
    prompt_logprobs: list[logprobs_pb2.TokenLogprobs] = []
    for response in responses:
        counts += token_counts(response)
        prompt_logprobs.extend(response.prompt_logprobs)
        for delta in response.deltas:
            candidates[delta.candidate_index].add(delta)
    wholes = tuple(candidate.whole() for candidate in candidates)
    return WholeAnswer(wholes, counts, tuple(prompt_logprobs))


class _Candidate:
    """Joins the deltas of one candidate."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[WholeCall] = []
        self._logprobs: list[logprobs_pb2.TokenLogprobs] = []
        self._token_ids: list[int] = []
        self._finish = stopping_pb2.Finish()

    def add(self, delta: CandidateDelta) -> None:
        self._text.append(delta.text)
        self._reasoning.append(delta.reasoning_text)
        self._logprobs.extend(delta.logprobs)
        self._token_ids.extend(delta.token_ids)
        for piece in delta.tool_calls:
            if piece.id:
                self._calls.append(WholeCall(piece.id, piece.name, piece.arguments_json))
            else:
                call = self._calls[piece.index]
                arguments = call.arguments + piece.arguments_json
                self._calls[piece.index] = replace(call, arguments=arguments)
        if delta.HasField("finish"):
            self._finish = delta.finish

    def whole(self) -> WholeCandidate:
        return WholeCandidate(
            "".join(self._text),
            finish_reason(self._finish.reason),
            tuple(self._logprobs),
            "".join(self._reasoning),
            tuple(self._calls),
            tuple(self._token_ids),
            stop_reason(self._finish),
        )
