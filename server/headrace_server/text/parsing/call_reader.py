"""Reads one call: a JSON object with a name and arguments, which are passed on as they come."""

from __future__ import annotations

import json
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NoReturn

from headrace_server.text.parsing.json_scanner import JsonScanner, Step
from headrace_server.text.parsing.source import END

if TYPE_CHECKING:
    from collections.abc import Collection

    from headrace_server.text.parsing.sink import Sink
    from headrace_server.text.parsing.source import Parse, Source

_NAME_KEY: Final = "name"
_ARGUMENT_KEYS: Final = frozenset(("arguments", "parameters"))
# What some models put beside them; an object with other keys is no call.
_OTHER_KEYS: Final = frozenset(("id", "type", "index"))


class Outcome(Enum):
    """What became of a call."""

    WHOLE = auto()
    """It has its name and arguments."""

    NONE = auto()
    """It is no call: all that was read is left to be text."""

    BROKEN = auto()
    """Its arguments were begun and are not JSON: what follows is left to be text."""


class _NoCallError(Exception):
    """What comes is not what a call has."""


class CallReader:
    """Reads calls, one after the other.

    Args:
        source: where the characters come from.
        sink: is told of the calls.
        names: of the tools that there are.
    """

    def __init__(self, source: Source, sink: Sink, names: Collection[str]) -> None:
        self._source = source
        self._sink = sink
        self._names = names
        self._raw: list[str] = []
        self._name: str | None = None
        self._early_arguments: list[str] | None = None  # those that came before the name
        self._is_begun = False
        self._is_whole = False

    def read(self) -> Parse[Outcome]:
        """Read a call from its opening brace on.

        One whose arguments are whole is, however the object around them ends.
        """
        return (yield from self._run(self._object()))

    def read_arguments(self, name: str) -> Parse[Outcome]:
        """Read the arguments of a call whose name was read."""
        return (yield from self._run(self._arguments_of(name)))

    def take_raw(self) -> str:
        """Return all characters of the call that was none."""
        return "".join(self._raw)

    def _run(self, parse: Parse[None]) -> Parse[Outcome]:
        self._raw = []
        self._name = self._early_arguments = None
        self._is_begun = self._is_whole = False
        try:
            yield from parse
        except _NoCallError:
            if self._is_whole:
                self._source.put_back("".join(self._raw))
        if self._is_whole:
            return Outcome.WHOLE
        return Outcome.BROKEN if self._is_begun else Outcome.NONE

    def _object(self) -> Parse[None]:
        yield from self._expect("{")
        while True:
            yield from self._skip_space()
            key = yield from self._string()
            yield from self._skip_space()
            yield from self._expect(":")
            yield from self._skip_space()
            yield from self._value_of(key)
            yield from self._skip_space()
            character = yield from self._next()
            if character == "}":
                break
            if character != ",":
                self._refuse(character)
        if not self._is_whole:
            self._begin()
            self._sink.add_arguments("{}")
            self._end()

    def _value_of(self, key: str) -> Parse[None]:
        if key in _ARGUMENT_KEYS and not self._is_begun and self._early_arguments is None:
            yield from self._arguments()
        elif key == _NAME_KEY and self._name is None:
            self._name = yield from self._string()
            if self._name not in self._names:
                raise _NoCallError
            if self._early_arguments is not None:
                self._begin()
                self._sink.add_arguments("".join(self._early_arguments))
                self._end()
        elif key in _OTHER_KEYS:
            yield from self._value([])
        else:
            raise _NoCallError

    def _arguments_of(self, name: str) -> Parse[None]:
        self._name = name
        character = yield from self._next()
        self._back(character)
        if character != "{":
            raise _NoCallError
        yield from self._arguments()

    def _arguments(self) -> Parse[None]:
        character = yield from self._next()
        self._back(character)
        value: list[str] = []
        if character != "{":  # some models write null for none
            yield from self._value(value)
            if value != list("null"):
                raise _NoCallError
            return
        if self._name is None:
            yield from self._value(value)
            self._early_arguments = value
            return
        self._begin()
        yield from self._value(None)
        self._end()

    def _begin(self) -> None:
        if self._name is None:
            raise _NoCallError
        self._is_begun = True
        self._sink.begin_call(self._name)

    def _end(self) -> None:
        self._is_whole = True
        self._raw = []  # what comes now may turn out to be text
        self._sink.end_call()

    def _string(self) -> Parse[str]:
        value: list[str] = []
        character = yield from self._next()
        self._back(character)
        if character != '"':
            raise _NoCallError
        yield from self._value(value)
        string: str = json.loads("".join(value))
        return string

    def _value(self, value: list[str] | None) -> Parse[None]:
        """Read a JSON value into a list; without one its characters are arguments."""
        scanner = JsonScanner()
        while True:
            character = yield from self._next()
            step = Step.BROKEN if character == END else scanner.feed(character)
            if step in (Step.BROKEN, Step.OVER):
                self._back(character)
                if step is Step.BROKEN:
                    raise _NoCallError
                return
            if value is None:
                self._sink.add_arguments(character)
            else:
                value.append(character)
            if step is Step.LAST:
                return

    def _expect(self, expected: str) -> Parse[None]:
        character = yield from self._next()
        if character != expected:
            self._refuse(character)

    def _refuse(self, character: str) -> NoReturn:
        self._back(character)
        raise _NoCallError

    def _skip_space(self) -> Parse[None]:
        space = yield from self._source.skip_space()
        self._raw.append(space)

    def _next(self) -> Parse[str]:
        character = yield from self._source.next()
        self._raw.append(character)
        return character

    def _back(self, character: str) -> None:
        self._source.put_back(character)
        self._raw.pop()
