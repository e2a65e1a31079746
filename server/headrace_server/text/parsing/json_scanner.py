"""Follows one JSON value character by character, and says where it ends or breaks."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

# Levels of objects and arrays; readers of JSON give up at some hundreds.
MAX_DEPTH: Final = 128

_SPACE: Final = frozenset(" \t\n\r")
_DIGITS: Final = frozenset("0123456789")
_HEX_DIGITS: Final = frozenset("0123456789abcdefABCDEF")
_LITERALS: Final = {"t": "rue", "f": "alse", "n": "ull"}


class Step(Enum):
    """What a character is to the value."""

    MORE = auto()
    """It belongs to the value, and others follow."""

    LAST = auto()
    """It is the last one of the value."""

    OVER = auto()
    """The value, a number, has ended before it."""

    BROKEN = auto()
    """It cannot follow."""


class _Expects(Enum):
    VALUE = auto()
    VALUE_OR_END = auto()  # of an array
    KEY = auto()
    KEY_OR_END = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    STRING = auto()  # its next character
    ESCAPE = auto()
    HEX = auto()
    NUMBER = auto()
    LITERAL = auto()


# The parts of a number, and what may follow each.
_ANY_DIGIT: Final = "0123456789"
_NUMBERS: Final[dict[str, dict[str, str]]] = {
    "minus": {"0": "zero", **dict.fromkeys("123456789", "integer")},
    "zero": {".": "point", **dict.fromkeys("eE", "e")},
    "integer": {".": "point", **dict.fromkeys("eE", "e"), **dict.fromkeys(_ANY_DIGIT, "integer")},
    "point": dict.fromkeys(_ANY_DIGIT, "fraction"),
    "fraction": {**dict.fromkeys("eE", "e"), **dict.fromkeys(_ANY_DIGIT, "fraction")},
    "e": {**dict.fromkeys("+-", "sign"), **dict.fromkeys(_ANY_DIGIT, "exponent")},
    "sign": dict.fromkeys(_ANY_DIGIT, "exponent"),
    "exponent": dict.fromkeys(_ANY_DIGIT, "exponent"),
}
_WHOLE_NUMBERS: Final = frozenset(("zero", "integer", "fraction", "exponent"))


class JsonScanner:
    """Takes the characters of a value that begins with the first one; strict as RFC 8259."""

    def __init__(self) -> None:
        self._expects = _Expects.VALUE
        self._containers: list[str] = []
        self._is_key = False
        self._number = ""
        self._literal = ""
        self._num_hex_digits = 0

    def feed(self, character: str) -> Step:
        """Take the next character; none after `LAST`, `OVER` or `BROKEN`."""
        match self._expects:
            case _Expects.STRING:
                return self._string(character)
            case _Expects.ESCAPE | _Expects.HEX:
                return self._escape(character)
            case _Expects.NUMBER:
                return self._go_on_number(character)
            case _Expects.LITERAL:
                return self._go_on_literal(character)
            case _ if character in _SPACE and self._containers:
                return Step.MORE
            case _:
                return self._structure(character)

    def _structure(self, character: str) -> Step:
        match self._expects, character:
            case (_Expects.VALUE_OR_END, "]") | (_Expects.KEY_OR_END, "}"):
                return self._close()
            case (_Expects.VALUE | _Expects.VALUE_OR_END, _):
                return self._begin(character)
            case (_Expects.KEY | _Expects.KEY_OR_END, '"'):
                return self._begin_string(is_key=True)
            case (_Expects.COLON, ":"):
                return self._expect(_Expects.VALUE)
            case (_Expects.COMMA_OR_END, _):
                return self._comma_or_end(character)
            case _:
                return Step.BROKEN

    def _expect(self, what: _Expects) -> Step:
        self._expects = what
        return Step.MORE

    def _begin(self, character: str) -> Step:
        if character in "{[":
            self._containers.append(character)
            if len(self._containers) > MAX_DEPTH:
                return Step.BROKEN
            is_object = character == "{"
            return self._expect(_Expects.KEY_OR_END if is_object else _Expects.VALUE_OR_END)
        if character == '"':
            return self._begin_string(is_key=False)
        if character in _LITERALS:
            self._literal = _LITERALS[character]
            return self._expect(_Expects.LITERAL)
        if character == "-" or character in _DIGITS:
            self._number = {"-": "minus", "0": "zero"}.get(character, "integer")
            return self._expect(_Expects.NUMBER)
        return Step.BROKEN

    def _begin_string(self, *, is_key: bool) -> Step:
        self._is_key = is_key
        return self._expect(_Expects.STRING)

    def _string(self, character: str) -> Step:
        if character == '"':
            return self._expect(_Expects.COLON) if self._is_key else self._end_value()
        if character == "\\":
            return self._expect(_Expects.ESCAPE)
        return Step.MORE if character >= " " else Step.BROKEN

    def _escape(self, character: str) -> Step:
        if self._expects is _Expects.ESCAPE:
            if character == "u":
                self._num_hex_digits = 0
                return self._expect(_Expects.HEX)
            return self._expect(_Expects.STRING) if character in '"\\/bfnrt' else Step.BROKEN
        if character not in _HEX_DIGITS:
            return Step.BROKEN
        self._num_hex_digits += 1
        return self._expect(_Expects.STRING) if self._num_hex_digits == 4 else Step.MORE

    def _go_on_number(self, character: str) -> Step:
        part = _NUMBERS[self._number].get(character)
        if part is not None:
            self._number = part
            return Step.MORE
        if self._number not in _WHOLE_NUMBERS:
            return Step.BROKEN
        if self._end_value() is Step.LAST:
            return Step.OVER
        return self.feed(character)

    def _go_on_literal(self, character: str) -> Step:
        if character != self._literal[0]:
            return Step.BROKEN
        self._literal = self._literal[1:]
        return Step.MORE if self._literal else self._end_value()

    def _comma_or_end(self, character: str) -> Step:
        is_object = self._containers[-1] == "{"
        if character == ",":
            return self._expect(_Expects.KEY if is_object else _Expects.VALUE)
        if character == ("}" if is_object else "]"):
            return self._close()
        return Step.BROKEN

    def _close(self) -> Step:
        self._containers.pop()
        return self._end_value()

    def _end_value(self) -> Step:
        return self._expect(_Expects.COMMA_OR_END) if self._containers else Step.LAST
