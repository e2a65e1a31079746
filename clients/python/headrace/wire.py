"""Puts values of Python into messages of the contract."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from google.protobuf.duration_pb2 import Duration
from grpc import StatusCode

from headrace.errors import InvalidRequestError

if TYPE_CHECKING:
    from google.protobuf.message import Message


def set_field(message: Message, option: str, field: str, value: Any) -> None:
    """Set the field at a dotted path; a value of None leaves it unset.

    Raises:
        TypeError: the value has the wrong type.
        InvalidRequestError: it cannot be put on the wire.
    """
    if value is None:
        return
    *parents, name = field.split(".")
    for parent in parents:
        message = getattr(message, parent)
    try:
        current = getattr(message, name)
        if isinstance(current, Duration):
            current.FromNanoseconds(round(value * 1e9))
        elif isinstance(current, str | bool | int | float):
            setattr(message, name, value)
        elif isinstance(current, MutableMapping):
            current.update(value)
        else:
            current.extend(value)
    except TypeError:
        raise TypeError(f"{option} cannot be {type(value).__name__}") from None
    except UnicodeEncodeError:
        raise unsendable(option, "holds a lone surrogate, which is not a character") from None
    except (ValueError, OverflowError):
        raise unsendable(option, "is out of range") from None


def json_text(option: str, value: object) -> str:
    """Return a value as JSON text.

    Raises:
        TypeError: JSON has nothing like it.
        InvalidRequestError: it holds a number that JSON does not have.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except TypeError as error:
        raise TypeError(f"{option} is no JSON: {error}") from None
    except ValueError:
        raise unsendable(option, "holds a number that JSON does not have") from None


def unsendable(option: str, problem: str) -> InvalidRequestError:
    """Return the error for a value that cannot be put on the wire."""
    return InvalidRequestError(
        f"{option} {problem}.", code=StatusCode.INVALID_ARGUMENT, field=option
    )
