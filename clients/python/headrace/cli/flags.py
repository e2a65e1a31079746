"""The parser of the command line, and what its flags are read with."""

from __future__ import annotations

import argparse
import shutil
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.cli.errors import ExitCode

if TYPE_CHECKING:
    from typing import TypeAlias

    # argparse has no public name for what add_subparsers returns.
    Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001

_MAX_HELP_WIDTH = 96


class Parser(argparse.ArgumentParser):
    """Shows its help as it is written, and ends a mistake with one sentence.

    Attributes:
        extra_word_hint: what to do about a word that is no argument; None for nothing more
            than to take it away.
    """

    extra_word_hint: str | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(
            **options,
            allow_abbrev=False,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
                prog,
                max_help_position=30,
                width=min(_MAX_HELP_WIDTH, shutil.get_terminal_size().columns - 2),
            ),
        )

    def error(self, message: str) -> NoReturn:
        """Exit with the sentence of a mistake on the command line."""
        sentence = message.removeprefix("argument ")
        self.exit(ExitCode.USAGE, f"{self.prog}: {sentence}. See {self.prog} --help.\n")

    def refuse(self, unknown: str) -> NoReturn:
        """Exit with the sentence of a word that nothing knows."""
        hint = None if unknown.startswith("-") else self.extra_word_hint
        self.error(hint or f"there is no flag or argument {unknown}")

    # argparse has no public place for the words about a choice. Only commands are choices here.
    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            commands = ", ".join(map(str, action.choices))
            raise argparse.ArgumentError(
                None, f"there is no command {value}; the commands are {commands}"
            )


def seconds(text: str) -> float:
    """Read a time in seconds, for argparse."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise ValueError
    return value
