"""How an answer ends: the wishes of a request, and the end itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.v1 import stopping_pb2
from headrace_server.rpc.convert.checks import check_token_ids, require
from headrace_server.text.delta import FinishReason
from headrace_server.text.generation import Stopping

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace_server.text.delta import Finish

# Each new token is searched for every stop sequence.
MAX_STOP_SEQUENCES: Final = 16
MAX_STOP_SEQUENCE_CHARACTERS: Final = 256
MAX_STOP_TOKEN_IDS: Final = 64

_FINISH_REASONS: Final[Mapping[FinishReason, stopping_pb2.FinishReason.ValueType]] = {
    FinishReason.END_OF_TEXT: stopping_pb2.FINISH_REASON_END_OF_TEXT,
    FinishReason.STOP_SEQUENCE: stopping_pb2.FINISH_REASON_STOP_SEQUENCE,
    FinishReason.MAX_OUTPUT_TOKENS: stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS,
    FinishReason.CONTEXT_LENGTH: stopping_pb2.FINISH_REASON_CONTEXT_LENGTH,
    FinishReason.TIME_LIMIT: stopping_pb2.FINISH_REASON_TIME_LIMIT,
    FinishReason.TOOL_CALLS: stopping_pb2.FINISH_REASON_TOOL_CALLS,
}


def to_stopping(message: stopping_pb2.Stopping) -> Stopping:
    """Check the wishes of a request.

    Raises:
        InvalidFieldError: a value is out of its range.
    """
    maximum = message.max_output_tokens if message.HasField("max_output_tokens") else None
    minimum = message.min_output_tokens
    require(maximum is None or maximum >= 0, "stopping.max_output_tokens", "must be at least 0")
    require(minimum >= 0, "stopping.min_output_tokens", "must be at least 0")
    require(
        maximum is None or minimum <= maximum,
        "stopping.min_output_tokens",
        "must be at most max_output_tokens",
    )
    _check_stop_sequences(message.stop_sequences)
    require(
        len(message.stop_token_ids) <= MAX_STOP_TOKEN_IDS,
        "stopping.stop_token_ids",
        f"must hold at most {MAX_STOP_TOKEN_IDS} token ids",
    )
    check_token_ids(message.stop_token_ids, "stopping.stop_token_ids")
    return Stopping(
        max_output_tokens=maximum,
        min_output_tokens=minimum,
        stop_sequences=tuple(message.stop_sequences),
        stop_token_ids=tuple(message.stop_token_ids),
        ignore_end_of_text=message.ignore_end_of_text,
        include_stop_in_output=message.include_stop_in_output,
    )


def set_finish(message: stopping_pb2.Finish, finish: Finish) -> None:
    """Fill in the end of a candidate."""
    message.reason = _FINISH_REASONS[finish.reason]
    if finish.stop_sequence is not None:
        message.stop_sequence = finish.stop_sequence
    elif finish.stop_token_id is not None:
        message.stop_token_id = finish.stop_token_id


def _check_stop_sequences(sequences: Sequence[str]) -> None:
    require(
        len(sequences) <= MAX_STOP_SEQUENCES,
        "stopping.stop_sequences",
        f"must hold at most {MAX_STOP_SEQUENCES} texts",
    )
    for index, sequence in enumerate(sequences):
        require(
            1 <= len(sequence) <= MAX_STOP_SEQUENCE_CHARACTERS,
            f"stopping.stop_sequences[{index}]",
            f"must have from 1 to {MAX_STOP_SEQUENCE_CHARACTERS} characters",
        )
