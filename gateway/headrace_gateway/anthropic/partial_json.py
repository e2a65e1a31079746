"""The input of a call that was cut, made into the object that it has begun."""

from __future__ import annotations

import json

_CLOSERS = {"{": "}", "[": "]"}


def complete_object(text: str) -> str:
    """Return a JSON object as it is; of the beginning of one, what is whole of it.

    Keys without values and strings without ends are left out; what is no JSON at all is an
    empty object.
    """
    open_brackets, whole = "", "{}"
    is_string = is_escaped = False
    for index, character in enumerate(text):
        if is_string:
            is_string = is_escaped or character != '"'
            is_escaped = character == "\\" and not is_escaped
        elif character == '"':
            is_string = True
        elif character in _CLOSERS:
            open_brackets = _CLOSERS[character] + open_brackets
            whole = text[: index + 1] + open_brackets
        elif character in ("}", "]"):
            open_brackets = open_brackets[1:]
            whole = text[: index + 1] + open_brackets
        elif character == ",":
            whole = text[:index] + open_brackets
    for candidate in (text, text + open_brackets, whole):
        if _is_object(candidate):
            return candidate
    return "{}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
