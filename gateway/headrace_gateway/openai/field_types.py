"""The JSON types that fields can have. Ranges are the server's to check.

Each reader takes the name of a field and its value, which is not null, and
returns the value or raises the refusal that names the field.
"""

from __future__ import annotations

import math
import re
from typing import TypeGuard

from headrace_gateway.openai.api_error import invalid_field

_INT32 = 2**31
_INT64 = 2**63


def text(name: str, value: object) -> str:
    """Read a string that UTF-8 can carry."""
    if not isinstance(value, str):
        raise invalid_field(name, f"{name} must be a string.")
    if not is_unicode(value):
        raise invalid_field(name, f"{name} holds half of a surrogate pair, which is no character.")
    return value


def boolean(name: str, value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise invalid_field(name, f"{name} must be true or false.")
    return value


def number(name: str, value: object) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise invalid_field(name, f"{name} must be a number.")
    try:
        as_float = float(value)
    except OverflowError:
        as_float = math.inf
    if not math.isfinite(as_float):
        raise invalid_field(name, f"{name} must be a finite number.")
    return as_float


def int32(name: str, value: object) -> int:
    """Read an integer of 32 bits."""
    return _integer(name, value, _INT32)


def count_or_false(name: str, value: object) -> int | None:
    """Read an integer of 32 bits; false, which says no elsewhere, is None."""
    return None if value is False else int32(name, value)


def int64(name: str, value: object) -> int:
    """Read an integer of 64 bits."""
    return _integer(name, value, _INT64)


def int32_list(name: str, value: object) -> tuple[int, ...]:
    """Read a list of integers of 32 bits."""
    if not is_integer_list(value):
        raise invalid_field(name, f"{name} must be a list of integers.")
    if value and not (min(value) >= -_INT32 and max(value) < _INT32):
        raise invalid_field(name, f"{name} holds an integer that does not fit 32 bits.")
    return tuple(value)


def negated_int32(name: str, value: object) -> int:
    """Read an integer of 32 bits that counts in the direction opposite to the contract's."""
    return min(-int32(name, value), _INT32 - 1)


def bias_by_token_id(name: str, value: object) -> dict[int, float]:
    """Read an object of numbers by token ids, which JSON has as strings."""
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object of numbers by token ids.")
    bias = {}
    for key, number_ in value.items():
        if re.fullmatch(r"-?[0-9]{1,10}", key) is None or not -_INT32 <= int(key) < _INT32:
            raise invalid_field(name, f'{name} must have token ids as its keys, such as "42".')
        bias[int(key)] = number(f"{name}[{key}]", number_)
    return bias


def text_or_list(name: str, value: object) -> tuple[str, ...]:
    """Read a string or a list of strings."""
    if isinstance(value, str):
        return (text(name, value),)
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a string or a list of strings.")
    return tuple(text(name, item) for item in value)


def is_unicode(value: str) -> bool:
    """Tell whether a string is free of lone surrogates."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def is_integer_list(value: object) -> TypeGuard[list[int]]:
    """Tell whether a value is a list of nothing but integers."""
    # A million ids are checked at the speed of C; bool is a type of its own here.
    return isinstance(value, list) and set(map(type, value)) <= {int}


def _integer(name: str, value: object, bound: int) -> int:
    # JSON has one kind of number: 16.0 is an integer.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid_field(name, f"{name} must be an integer.")
    if not -bound <= value < bound:
        bits = bound.bit_length()
        raise invalid_field(name, f"{name} is an integer that does not fit {bits} bits.")
    return value
