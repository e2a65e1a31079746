"""The flags that set options of the client, which several commands share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.flags import seconds
from headrace.cli.server_flags import KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.cli.flags import Parser
    from headrace.errors import HeadraceError


def text_file(path: str) -> str:
    """Read a file of text, for argparse."""
    try:
        return Path(path).read_bytes().decode()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"cannot read {path!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise argparse.ArgumentTypeError(f"{path!r} is not text in UTF-8") from None


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
    OptionFlag(
        "--presence-penalty", "presence_penalty", float, "P", "against tokens used before, -2 to 2"
    ),
    OptionFlag(
        "--frequency-penalty",
        "frequency_penalty",
        float,
        "P",
        "the same for each time they were used, -2 to 2",
    ),
    OptionFlag(
        "--repetition-penalty",
        "repetition_penalty",
        float,
        "P",
        "divides the chances of tokens seen before, prompt included, 0.1 to 10",
    ),
)
CANDIDATES = OptionFlag(
    "--candidates", "candidate_count", int, "N", "number of answers, 1 to 16 (default: 1)"
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
FORM_FLAGS = (
    OptionFlag(
        "--json-schema", "json_schema", text_file, "FILE", "JSON that this schema describes"
    ),
    OptionFlag("--json-object", "json_object", None, None, "a JSON object of any content"),
    OptionFlag("--regex", "regex", str, "PATTERN", "what this regular expression matches"),
    OptionFlag(
        "--grammar", "grammar", text_file, "FILE", "a text of this grammar in Lark notation"
    ),
    OptionFlag(
        "--choice", "choices", str, "TEXT", "one of these texts; give it again", is_list=True
    ),
)
LOGPROBS = OptionFlag(
    "--logprobs",
    "top_logprobs",
    int,
    "N",
    "tell how likely each token was, with the N most likely ones, 0 to 20",
)
SUFFIX = OptionFlag(
    "--suffix", "suffix", str, "TEXT", "fill in what comes between the text and this one"
)
QUEUE_FLAGS = (
    OptionFlag("--priority", "priority", int, "N", "go before those of a lower one, -100 to 100"),
    OptionFlag(
        "--cache-salt",
        "cache_salt",
        str,
        "TEXT",
        "share the cache of prompts only with those who give the same text",
    ),
)
_ALL_FLAGS = (
    *SAMPLING_FLAGS,
    CANDIDATES,
    *STOPPING_FLAGS,
    *FORM_FLAGS,
    LOGPROBS,
    SUFFIX,
    *QUEUE_FLAGS,
)


def add_options(
    parser: Parser, title: str, flags: tuple[OptionFlag, ...], *, is_exclusive: bool = False
) -> None:
    """Add a group of flags that set options of the client; one of them at most, if exclusive."""
    group: argparse._ActionsContainer = parser.add_argument_group(title)
    if is_exclusive:
        group = group.add_mutually_exclusive_group()
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
    names = ["model", *(flag.option for flag in _ALL_FLAGS)]
    return {name: value for name in names if (value := getattr(given, name, None)) is not None}


def to_command_error(error: HeadraceError) -> CommandError:
    """Return the error of a call in the words of the command line.

    A value that the server refuses is a mistake on the command line where a flag has set it.
    """
    if error.reason == "UNAUTHENTICATED":
        return CommandError(f"{error.message} --api-key or {KEY_VARIABLE} gives it.")
    flags = {flag.option: flag.flag for flag in _ALL_FLAGS}
    option = error.field or ""
    flag = flags.get(option.partition("[")[0])
    if flag is None:
        return CommandError(error.message)
    if error.message.startswith(option):
        return CommandError(flag + error.message.removeprefix(option), ExitCode.USAGE)
    return CommandError(error.message, ExitCode.USAGE)
