"""Where `headrace chat` reads its lines: from a person at a terminal, or from a pipe."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.cli.errors import CommandError
from headrace.cli.terminal import note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MAX_HISTORY_LINES = 1000
_BLOCK_QUOTES = '"""'


class LineSource(Protocol):
    """Gives the lines of a conversation one at a time."""

    def read(self) -> str | None:
        """Return the next line; None at the end."""


class PipedLines:
    """The lines of a file or another program."""

    def read(self) -> str | None:
        """Return the next line; None at the end.

        Raises:
            CommandError: it is not text.
        """
        line = sys.stdin.buffer.readline()
        try:
            return line.decode().removesuffix("\n") if line else None
        except UnicodeDecodeError:
            raise CommandError("The standard input is not text in UTF-8.") from None


class TypedLines:
    """The lines that a person types, with editing and history.

    A text in triple quotes may have several lines. Ctrl-C drops what was typed; the
    next one ends, as Ctrl-D does, if nothing was typed in between.

    Args:
        unfinished_line: returns what of a line was typed when Ctrl-C came.
    """

    def __init__(self, unfinished_line: Callable[[], str]) -> None:
        self._unfinished_line = unfinished_line

    def read(self) -> str | None:
        """Return the next text; None at the end.

        Raises:
            KeyboardInterrupt: Ctrl-C was typed twice with nothing in between.
        """
        is_first = True
        while True:
            lines: list[str] = []
            try:
                return self._read(lines)
            except KeyboardInterrupt:
                print()
                if not (is_first or lines or self._unfinished_line()):
                    raise
                note("Ctrl-C again or Ctrl-D to leave")
                is_first = False

    def _read(self, lines: list[str]) -> str | None:
        """Read a text by its lines, which are added to `lines` one by one."""
        try:
            lines.append(input(">>> "))
            if lines[0].startswith(_BLOCK_QUOTES):
                lines[0] = lines[0].removeprefix(_BLOCK_QUOTES)
                while not lines[-1].rstrip().endswith(_BLOCK_QUOTES):
                    lines.append(input("... "))
                lines[-1] = lines[-1].rstrip().removesuffix(_BLOCK_QUOTES)
        except EOFError:
            print()
            return None
        except UnicodeDecodeError:
            note("that was not text in UTF-8 and is dropped")
            return ""
        return "\n".join(lines)


@contextmanager
def line_source(*, is_interactive: bool) -> Iterator[LineSource]:
    """Open the source that fits; that of a person loads and saves the history."""
    if not is_interactive:
        yield PipedLines()
        return
    import readline  # changes how `input` behaves, so it is not for pipes

    # A paste of several lines is one text and not a turn per line.
    readline.parse_and_bind("set enable-bracketed-paste on")
    readline.set_history_length(_MAX_HISTORY_LINES)
    path = history_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.read_history_file(path)
    except OSError as error:
        note(f"the history in {path} cannot be used: {error.strerror}")
    try:
        yield TypedLines(readline.get_line_buffer)
    finally:
        if os.access(path, os.W_OK):
            readline.write_history_file(path)


def history_path() -> Path:
    """Return the file of the history, in the state directory of the XDG convention."""
    state = os.environ.get("XDG_STATE_HOME", "")
    directory = Path(state) if state.startswith("/") else Path.home() / ".local/state"
    return directory / "headrace" / "chat_history"
