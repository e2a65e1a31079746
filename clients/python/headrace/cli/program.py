"""The command `headrace`: finds the subcommand, runs it, and turns errors into sentences."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import TYPE_CHECKING

import headrace
from headrace.cli.bench import add_to as add_bench
from headrace.cli.chat import add_to as add_chat
from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.flags import Parser
from headrace.cli.generate import add_to as add_generate
from headrace.cli.health import add_to as add_health
from headrace.cli.models import add_to as add_models
from headrace.cli.option_flags import to_command_error
from headrace.cli.serve import add_to as add_serve
from headrace.cli.version import add_to as add_version
from headrace.cli.version import text as version_text

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = "Serve language models over gRPC and HTTP, and talk to them."
_EPILOG = """\
examples:
  headrace serve                                        serve the built-in model
  headrace chat                                         talk to it
  headrace generate "Once upon a time" --max-tokens 60  continue a text
  headrace COMMAND --help                               more, and every flag

exit status:
  0    done
  1    failed; the last line on stderr says why
  2    the command line is wrong, or the server refuses the value of a flag
  130  stopped by Ctrl-C
  141  the reader of the output left, as after `| head`
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line.

    Args:
        arguments: without the name of the program; None takes the process's own.

    Returns:
        The exit status; see `ExitCode`.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        # In a locale that lacks a character a question mark is better than an end.
        sys.stdout.reconfigure(errors="replace")
    parser = _build_parser()
    given, unknown = parser.parse_known_args(arguments)
    if unknown:
        given.parser.refuse(unknown[0])
    if given.run is None:
        parser.print_help()
        return ExitCode.USAGE
    try:
        exit_code: int = given.run(given)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # What is left in the buffer goes nowhere, so that Python's own flush is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    except CommandError as error:
        return _fail(error)
    except headrace.HeadraceError as error:
        return _fail(to_command_error(error))
    return exit_code


def _build_parser() -> Parser:
    parser = Parser(prog="headrace", description=_DESCRIPTION, epilog=_EPILOG)
    parser.set_defaults(run=None, parser=parser)
    parser.add_argument("--version", action="version", version=version_text())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for add_command in (
        add_serve,
        add_chat,
        add_generate,
        add_models,
        add_health,
        add_bench,
        add_version,
    ):
        add_command(commands)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
    return parser


def _fail(error: CommandError) -> int:
    print(f"headrace: {error}", file=sys.stderr)
    return error.exit_code
