"""The input of a call that was cut, made into the object that it has begun."""

from __future__ import annotations

import json

_CLOSERS = {"{": "}", "[": "]"}


def complete_object(text: str) -> str:
    """Return a JSON object as it is; of the beginning of one, what is whole of it.

    Keys without values, strings without ends and numbers that may go on are left out; what is
    no JSON at all is an empty object.
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
    if _is_object(text):
        return text
    if not text[-1:].isdigit() and _is_object(text + open_brackets):
        return text + open_brackets
    return whole if _is_object(whole) else "{}"


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
