"""The responses of Generate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.v1 import inference_service_pb2 as pb
from headrace_server.rpc.convert.stopping import set_finish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.duration_pb2 import Duration

    from headrace_server.text.generation import TextDelta, Timing, Usage

# Responses of Generate are cut to stay below 1 MiB: a character has at most 4 bytes and a
# token id at most 5, so that these two together make 832 KiB.
MAX_RESPONSE_CHARACTERS: Final = 128 * 1024
MAX_RESPONSE_TOKEN_IDS: Final = 64 * 1024


def to_responses(delta: TextDelta, *, want_token_ids: bool) -> Iterator[pb.GenerateResponse]:
    """Turn a delta into a response; a very long one into several, each below 1 MiB."""
    text, token_ids = delta.text, delta.token_ids if want_token_ids else ()
    while len(text) > MAX_RESPONSE_CHARACTERS or len(token_ids) > MAX_RESPONSE_TOKEN_IDS:
        response = pb.GenerateResponse()
        piece = response.deltas.add()
        piece.text = text[:MAX_RESPONSE_CHARACTERS]
        piece.token_ids.extend(token_ids[:MAX_RESPONSE_TOKEN_IDS])
        text, token_ids = text[MAX_RESPONSE_CHARACTERS:], token_ids[MAX_RESPONSE_TOKEN_IDS:]
        yield response
    response = pb.GenerateResponse()
    piece = response.deltas.add()
    if text:
        piece.text = text
    if token_ids:
        piece.token_ids.extend(token_ids)
    if delta.finish is not None:
        set_finish(piece.finish, delta.finish)
    if delta.usage is not None:
        _set_usage(response.usage, delta.usage)
    if delta.timing is not None:
        _set_timing(response.timing, delta.timing)
    yield response


def _set_usage(message: pb.Usage, usage: Usage) -> None:
    message.prompt_token_count = usage.prompt_token_count
    message.output_token_count = usage.output_token_count


def _set_timing(message: pb.Timing, timing: Timing) -> None:
    _set_duration(message.queue, timing.queue_seconds)
    if timing.first_token_seconds is not None:
        _set_duration(message.first_token, timing.first_token_seconds)
    _set_duration(message.total, timing.total_seconds)


def _set_duration(message: Duration, seconds: float) -> None:
    message.FromMicroseconds(round(seconds * 1e6))
