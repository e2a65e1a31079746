"""The checks that the parts of a request share; each refusal begins with the path of its field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace_server.errors import InvalidFieldError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.duration_pb2 import Duration

# The label is repeated in log lines; these bounds keep a line short.
MAX_REQUEST_ID_CHARACTERS: Final = 128
# The longest Hub ids are shorter; an unknown name is repeated in the error.
MAX_MODEL_NAME_CHARACTERS: Final = 256


def require(condition: bool, field: str, rule: str) -> None:
    """Refuse a field that breaks a rule, such as ``must be at least 0``.

    Raises:
        InvalidFieldError: the condition does not hold.
    """
    if not condition:
        raise InvalidFieldError(field, f"{field} {rule}.")


def check_model_name(name: str, field: str) -> None:
    """Check the length of a model's name; empty means the served model.

    Raises:
        InvalidFieldError: it is too long.
    """
    require(
        len(name) <= MAX_MODEL_NAME_CHARACTERS,
        field,
        f"must have at most {MAX_MODEL_NAME_CHARACTERS} characters",
    )


def check_label(label: str) -> None:
    """Check the caller's label of a request; empty means none.

    Raises:
        InvalidFieldError: it is not fit for headers and logs.
    """
    require(
        not label or is_label(label),
        "request_id",
        f"must have at most {MAX_REQUEST_ID_CHARACTERS} printable ASCII characters",
    )


def is_label(text: str) -> bool:
    """Tell whether a text is short and plain enough to name a request in headers and logs."""
    return 0 < len(text) <= MAX_REQUEST_ID_CHARACTERS and text.isascii() and text.isprintable()


def check_token_ids(ids: Sequence[int], field: str) -> None:
    """Refuse negative ids; the vocabulary bounds them from above, and only a model has one.

    Raises:
        InvalidFieldError: an id is negative.
    """
    if ids and min(ids) < 0:
        index = next(i for i, token_id in enumerate(ids) if token_id < 0)
        raise InvalidFieldError(f"{field}[{index}]", f"{field}[{index}] must be at least 0.")


def to_seconds(duration: Duration, field: str) -> float:
    """Turn a Duration into seconds; protobuf itself lets any two integers pass.

    Raises:
        InvalidFieldError: it is no duration.
    """
    seconds, nanos = duration.seconds, duration.nanos
    require(
        -1_000_000_000 < nanos < 1_000_000_000 and seconds * nanos >= 0,
        field,
        "must have nanos below 1,000,000,000 and of the sign of its seconds",
    )
    return seconds + nanos / 1e9
