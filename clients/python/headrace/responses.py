"""Responses of the contract → results of the client; pure, and shared by both clients."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from grpc import StatusCode

from headrace import results
from headrace.errors import InternalError
from headrace.logprobs import TokenLogprobs, TopLogprob
from headrace.tools import ToolCall, ToolCallDelta
from headrace.v1.model_pb2 import Capability
from headrace.v1.stopping_pb2 import FinishReason

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from headrace.v1 import logprobs_pb2
    from headrace.v1.inference_service_pb2 import (
        CandidateDelta,
        GenerateResponse,
        TokenizeRequest,
        TokenizeResponse,
    )
    from headrace.v1.model_pb2 import Model
    from headrace.v1.stopping_pb2 import Finish


class Transcript:
    """The answer so far, collected from the responses of one call.

    Args:
        num_candidates: how many there are to be.

    Attributes:
        request_id: the server's own id of the request, once it is known.
    """

    def __init__(self, num_candidates: int) -> None:
        self.request_id: str | None = None
        self._num_candidates = num_candidates
        self._candidates: defaultdict[int, _CandidateTranscript] = defaultdict(_CandidateTranscript)
        self._prompt_logprobs: list[TokenLogprobs] = []
        self._cached_token_count = 0
        self._usage = results.Usage(0, 0)
        self._timing = results.Timing(0.0, None, 0.0)

    @property
    def text(self) -> str:
        """The text of the first candidate so far."""
        return "".join(self._candidates[0].texts)

    def add(self, response: GenerateResponse) -> list[results.Delta]:
        """Take a response and return its pieces.

        Raises:
            InternalError: it has a candidate that nobody asked for, or the rest of a call without
                its beginning, which breaks the contract.
        """
        if response.HasField("prompt"):
            self._cached_token_count = response.prompt.cached_token_count
        if response.prompt_logprobs:
            self._prompt_logprobs.extend(map(_token_logprobs, response.prompt_logprobs))
        if response.HasField("usage"):
            self._usage = results.Usage(
                response.usage.prompt_token_count,
                response.usage.output_token_count,
                self._cached_token_count,
                response.usage.reasoning_token_count,
            )
            self._timing = _timing(response)
        deltas = [_delta(message) for message in response.deltas]
        for delta in deltas:
            if not 0 <= delta.candidate_index < self._num_candidates:
                raise _broken("The server sent a candidate that was not asked for.")
            self._candidates[delta.candidate_index].add(delta)
        return deltas

    def close(self) -> None:
        """Take note that the call ended with status OK.

        Raises:
            InternalError: a candidate has no finish, which breaks the contract.
        """
        if not self._is_complete:
            raise _broken("The server ended the call before the answer was complete.")

    @property
    def generation(self) -> results.Generation:
        """Return the whole answer.

        Raises:
            RuntimeError: it is not finished.
        """
        if not self._is_complete:
            raise RuntimeError("the answer is not complete: read the stream to its end")
        return results.Generation(
            candidates=tuple(self._candidates[i].whole() for i in range(self._num_candidates)),
            usage=self._usage,
            timing=self._timing,
            request_id=self.request_id,
            prompt_logprobs=tuple(self._prompt_logprobs),
        )

    @property
    def _is_complete(self) -> bool:
        finishes = [candidate.finish for candidate in self._candidates.values()]
        return len(finishes) == self._num_candidates and None not in finishes


class _CandidateTranscript:
    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasoning: list[str] = []
        self.tool_calls: list[ToolCall] = []
        self.token_ids: list[int] = []
        self.logprobs: list[TokenLogprobs] = []
        self.finish: results.Finish | None = None

    def add(self, delta: results.Delta) -> None:
        self.texts.append(delta.text)
        self.reasoning.append(delta.reasoning)
        for piece in delta.tool_calls:
            self._add_call(piece)
        self.token_ids.extend(delta.token_ids)
        self.logprobs.extend(delta.logprobs)
        self.finish = delta.finish or self.finish

    def whole(self) -> results.Candidate:
        assert self.finish is not None
        return results.Candidate(
            text="".join(self.texts),
            token_ids=tuple(self.token_ids),
            finish=self.finish,
            logprobs=tuple(self.logprobs),
            reasoning="".join(self.reasoning),
            tool_calls=tuple(self.tool_calls),
        )

    def _add_call(self, piece: ToolCallDelta) -> None:
        if piece.index == len(self.tool_calls) and piece.id:
            self.tool_calls.append(ToolCall(piece.id, piece.name, piece.arguments_json))
        elif 0 <= piece.index < len(self.tool_calls):
            call = self.tool_calls[piece.index]
            arguments = call.arguments_json + piece.arguments_json
            self.tool_calls[piece.index] = replace(call, arguments_json=arguments)
        else:
            raise _broken("The server sent a piece of a call that it did not begin.")


def tokenization(request: TokenizeRequest, response: TokenizeResponse) -> results.Tokenization:
    """Convert a response."""
    had_text = request.WhichOneof("prompt") != "token_ids"
    return results.Tokenization(tuple(response.token_ids), response.text if had_text else None)


def model(message: Model) -> results.Model:
    """Convert the description of a model."""
    sampling = message.default_sampling
    return results.Model(
        name=message.name,
        aliases=tuple(message.aliases),
        context_length=message.context_length,
        vocabulary_size=message.vocabulary_size,
        default_sampling=results.Sampling(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            presence_penalty=sampling.presence_penalty,
            frequency_penalty=sampling.frequency_penalty,
            # An older server has none, which is a penalty that changes nothing.
            repetition_penalty=sampling.repetition_penalty or 1.0,
        ),
        end_of_text_token_ids=tuple(message.end_of_text_token_ids),
        capabilities=tuple(_capability(number) for number in message.capabilities),
        tokenizer_fingerprint=message.tokenizer_fingerprint,
        ready_time=message.ready_time.ToDatetime(tzinfo=UTC),
    )


def _delta(message: CandidateDelta) -> results.Delta:
    return results.Delta(
        text=message.text,
        token_ids=tuple(message.token_ids),
        finish=_finish(message.finish) if message.HasField("finish") else None,
        candidate_index=message.candidate_index,
        logprobs=tuple(map(_token_logprobs, message.logprobs)),
        reasoning=message.reasoning_text,
        tool_calls=tuple(
            ToolCallDelta(piece.index, piece.id, piece.name, piece.arguments_json)
            for piece in message.tool_calls
        ),
    )


def _token_logprobs(message: logprobs_pb2.TokenLogprobs) -> TokenLogprobs:
    return TokenLogprobs(
        token_id=message.token_id,
        token_bytes=message.token_bytes,
        logprob=message.logprob if message.HasField("logprob") else None,
        top=tuple(TopLogprob(top.token_id, top.token_bytes, top.logprob) for top in message.top),
    )


def _broken(problem: str) -> InternalError:
    return InternalError(problem, code=StatusCode.INTERNAL)


def _finish(message: Finish) -> results.Finish:
    return results.Finish(
        reason=_finish_reason(message.reason),
        stop_sequence=message.stop_sequence if message.HasField("stop_sequence") else None,
        stop_token_id=message.stop_token_id if message.HasField("stop_token_id") else None,
    )


def _finish_reason(number: FinishReason.ValueType) -> results.FinishReason:
    try:
        name = FinishReason.Name(number)
        return results.FinishReason(name.removeprefix("FINISH_REASON_").lower())
    except ValueError:
        return results.FinishReason.UNKNOWN


def _capability(number: Capability.ValueType) -> results.Capability:
    try:
        return results.Capability(Capability.Name(number).removeprefix("CAPABILITY_").lower())
    except ValueError:
        return results.Capability.UNKNOWN


def _timing(response: GenerateResponse) -> results.Timing:
    timing = response.timing
    first_token = timing.first_token if timing.HasField("first_token") else None
    return results.Timing(
        queue_seconds=_seconds(timing.queue),
        first_token_seconds=None if first_token is None else _seconds(first_token),
        total_seconds=_seconds(timing.total),
    )


def _seconds(duration: Duration) -> float:
    return duration.ToNanoseconds() / 1e9
