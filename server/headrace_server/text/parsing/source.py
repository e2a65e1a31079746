"""The characters of an output for parsers that are written as if they could wait for them.

A parser is a generator: it asks for a character by ``yield from source.next()`` and is
resumed when there is one. So what it makes of an output cannot depend on how it is cut.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, TypeVar

END: Final = ""
"""What `Source.next` returns at the end of the output, and ever after."""

_Result = TypeVar("_Result")

Parse = Generator[None, str, _Result]
"""A parser: is sent characters, and returns what it made of them."""


class Source:
    """The next characters of one output."""

    def __init__(self) -> None:
        self._returned: list[str] = []
        self._is_at_end = False

    def next(self) -> Parse[str]:
        """Return the next character, or `END`."""
        if self._returned:
            return self._returned.pop()
        if self._is_at_end:
            return END
        character = yield
        self._is_at_end = character == END
        return character

    def put_back(self, text: str) -> None:
        """Let `text` come next."""
        self._returned.extend(reversed(text))

    def skip_space(self) -> Parse[str]:
        """Return the white space that comes next, which may be none."""
        space: list[str] = []
        while (character := (yield from self.next())) != END and character.isspace():
            space.append(character)
        self.put_back(character)
        return "".join(space)

    def take(self, text: str) -> Parse[bool]:
        """Tell whether `text` comes next, and take it; else leave what comes."""
        for index, expected in enumerate(text):
            character = yield from self.next()
            if character != expected:
                self.put_back(text[:index] + character)
                return False
        return True

    def take_cut(self, text: str) -> Parse[bool]:
        """As `take`, but at the end of the output a beginning of `text` is as good as all of it."""
        for index, expected in enumerate(text):
            character = yield from self.next()
            if character not in (expected, END):
                self.put_back(text[:index] + character)
                return False
        return True
