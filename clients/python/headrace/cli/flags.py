"""The parser of the command line, and the flags that several commands share."""

from __future__ import annotations

import argparse
import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from headrace.channel import DEFAULT_TARGET, parse_target
from headrace.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from headrace.errors import HeadraceError

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


@dataclass(frozen=True, slots=True)
class OptionFlag:
    """A flag that sets an option of the client.

    Args:
        flag: with its dashes.
        option: of `headrace.GenerateOptions`.
        read: turns its text into the value; None for a switch that sets True.
        metavar: what stands for the value in the help.
        help: what it is for.
        is_list: it may be given several times.
    """

    flag: str
    option: str
    read: Callable[[str], object] | None
    metavar: str | None
    help: str
    is_list: bool = False


SAMPLING_FLAGS = (
    OptionFlag(
        "--temperature", "temperature", float, "T", "randomness, 0 to 2; 0 is the most likely"
    ),
    OptionFlag("--top-p", "top_p", float, "P", "probability mass to choose from, up to 1"),
    OptionFlag("--top-k", "top_k", int, "K", "number of tokens to choose from; 0 is all"),
    OptionFlag("--min-p", "min_p", float, "P", "least probability beside the most likely, 0 to 1"),
    OptionFlag("--seed", "seed", int, "N", "the same seed gives the same answer"),
)
MAX_TOKENS = OptionFlag(
    "--max-tokens", "max_output_tokens", int, "N", "longest answer (default: the room there is)"
)
STOPPING_FLAGS = (
    MAX_TOKENS,
    OptionFlag("--min-tokens", "min_output_tokens", int, "N", "shortest answer (default: 0)"),
    OptionFlag("--stop", "stop", str, "TEXT", "end at this text; may be given again", is_list=True),
    OptionFlag("--include-stop", "include_stop", None, None, "print the text it ended at, too"),
    OptionFlag("--ignore-end-of-text", "ignore_end_of_text", None, None, "run on past the end"),
    OptionFlag("--timeout", "timeout", seconds, "SECONDS", "give up after this long"),
)


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


def add_options(parser: Parser, title: str, flags: tuple[OptionFlag, ...]) -> None:
    """Add a group of flags that set options of the client."""
    group = parser.add_argument_group(title)
    for flag in flags:
        if flag.read is None:
            group.add_argument(
                flag.flag, dest=flag.option, action="store_const", const=True, help=flag.help
            )
        else:
            group.add_argument(
                flag.flag,
                dest=flag.option,
                action="append" if flag.is_list else "store",
                type=flag.read,
                metavar=flag.metavar,
                help=flag.help,
            )


def read_options(given: argparse.Namespace) -> Mapping[str, Any]:
    """Return the options of the client that were given, the model included."""
    names = ["model", *(flag.option for flag in (*SAMPLING_FLAGS, *STOPPING_FLAGS))]
    return {name: value for name in names if (value := getattr(given, name, None)) is not None}


def to_command_error(error: HeadraceError) -> CommandError:
    """Return the error of a call in the words of the command line.

    A value that the server refuses is a mistake on the command line where a flag has set it.
    """
    flags = {flag.option: flag.flag for flag in (*SAMPLING_FLAGS, *STOPPING_FLAGS)}
    option = error.field or ""
    flag = flags.get(option.partition("[")[0])
    if flag is None:
        return CommandError(error.message)
    if error.message.startswith(option):
        return CommandError(flag + error.message.removeprefix(option), ExitCode.USAGE)
    return CommandError(error.message, ExitCode.USAGE)
