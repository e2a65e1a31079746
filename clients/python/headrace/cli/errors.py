"""How a command ends: its exit status, and the error that is one sentence."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status; the last two are 128 + the signal, as in every shell."""

    DONE = 0
    FAILURE = 1
    USAGE = 2
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class CommandError(Exception):
    """The command cannot go on. The message is a sentence that says what to do.

    Args:
        sentence: for the person at the terminal.
        exit_code: of the program.
    """

    def __init__(self, sentence: str, exit_code: ExitCode = ExitCode.FAILURE) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
