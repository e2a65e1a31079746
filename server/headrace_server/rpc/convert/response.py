"""The responses of Generate."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.v1 import inference_service_pb2 as pb
from headrace_server.rpc.convert.cutting import cut, fits
from headrace_server.rpc.convert.stopping import set_finish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

    from headrace.v1 import logprobs_pb2
    from headrace_server.text.delta import AnswerDelta, CandidateDelta, Timing
    from headrace_server.text.logprobs import TextLogprobs


def to_responses(delta: AnswerDelta, *, want_token_ids: bool) -> Iterator[pb.GenerateResponse]:
    """Turn a delta into a response; a very long one into several, each below 1 MiB."""
    if fits(delta):
        yield _to_response(delta, want_token_ids)
        return
    if not want_token_ids:
        candidates = [replace(candidate, token_ids=()) for candidate in delta.candidates]
        delta = replace(delta, candidates=candidates)
    for piece in cut(delta):
        yield _to_response(piece, want_token_ids)


def _to_response(delta: AnswerDelta, want_token_ids: bool) -> pb.GenerateResponse:
    response = pb.GenerateResponse()
    if delta.prompt is not None:
        response.prompt.token_count = delta.prompt.token_count
        response.prompt.cached_token_count = delta.prompt.cached_token_count
    if delta.prompt_logprobs:
        _add_logprobs(response.prompt_logprobs, delta.prompt_logprobs)
    for candidate in delta.candidates:
        _set_candidate(response.deltas.add(), candidate, want_token_ids)
    if delta.usage is not None:
        response.usage.prompt_token_count = delta.usage.prompt_token_count
        response.usage.output_token_count = delta.usage.output_token_count
        response.usage.reasoning_token_count = delta.usage.reasoning_token_count
    if delta.timing is not None:
        _set_timing(response.timing, delta.timing)
    return response


def _set_candidate(
    message: pb.CandidateDelta, candidate: CandidateDelta, want_token_ids: bool
) -> None:
    if candidate.candidate_index:
        message.candidate_index = candidate.candidate_index
    if candidate.text:
        message.text = candidate.text
    if want_token_ids and candidate.token_ids:
        message.token_ids.extend(candidate.token_ids)
    if candidate.logprobs:
        _add_logprobs(message.logprobs, candidate.logprobs)
    if candidate.reasoning:
        message.reasoning_text = candidate.reasoning
    for piece in candidate.tool_calls:
        message.tool_calls.add(
            index=piece.index, id=piece.id, name=piece.name, arguments_json=piece.arguments
        )
    if candidate.finish is not None:
        set_finish(message.finish, candidate.finish)


def _add_logprobs(
    messages: RepeatedCompositeFieldContainer[logprobs_pb2.TokenLogprobs],
    logprobs: Sequence[TextLogprobs],
) -> None:
    for each in logprobs:
        message = messages.add(
            token_id=each.token_id, token_bytes=each.token_bytes, logprob=each.logprob
        )
        for token_id, token_bytes, logprob in zip(
            each.top_token_ids, each.top_token_bytes, each.top_logprobs, strict=True
        ):
            message.top.add(token_id=token_id, token_bytes=token_bytes, logprob=logprob)


def _set_timing(message: pb.Timing, timing: Timing) -> None:
    _set_duration(message.queue, timing.queue_seconds)
    if timing.first_token_seconds is not None:
        _set_duration(message.first_token, timing.first_token_seconds)
    _set_duration(message.total, timing.total_seconds)


def _set_duration(message: Duration, seconds: float) -> None:
    message.FromMicroseconds(round(seconds * 1e6))
