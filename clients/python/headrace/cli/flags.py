"""The parser of the command line, and the flags that say which server and which model."""

from __future__ import annotations

import argparse
import os
import shutil
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.channel import DEFAULT_TARGET, parse_target
from headrace.cli.errors import ExitCode

if TYPE_CHECKING:
    from typing import TypeAlias

    # argparse has no public name for what add_subparsers returns.
    Commands: TypeAlias = "argparse._SubParsersAction[Parser]"  # noqa: SLF001

_MAX_HELP_WIDTH = 96
TARGET_VARIABLE = "HEADRACE_TARGET"


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


def target(text: str) -> str:
    """Read the address of a server, for argparse."""
    try:
        parse_target(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def add_target(parser: Parser) -> argparse._ArgumentGroup:
    """Add the group of flags that say which server, and return it."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--target",
        type=target,
        metavar="HOST:PORT",
        default=os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET,
        help=f"gRPC address (default: {DEFAULT_TARGET}; env: {TARGET_VARIABLE})",
    )
    return group


def add_model(group: argparse._ArgumentGroup) -> None:
    """Add the flag that says which model."""
    group.add_argument(
        "--model", metavar="NAME", help="name or alias of the model (default: the served one)"
    )
