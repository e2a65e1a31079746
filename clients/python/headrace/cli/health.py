"""`headrace health`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import headrace
from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.flags import seconds
from headrace.cli.server_flags import add_server, open_client

if TYPE_CHECKING:
    import argparse

    from headrace.cli.flags import Commands

_POLL_SECONDS = 0.25

_DESCRIPTION = "Tell whether the server takes requests."
_EPILOG = """\
examples:
  headrace health
  headrace health --wait 300        in a script, after starting a server

exit status: 0 if it does, 1 if it does not or cannot be reached
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "health",
        help="tell whether the server takes requests",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    group = add_server(parser)
    group.add_argument(
        "--wait",
        type=seconds,
        metavar="SECONDS",
        default=0.0,
        help="wait up to this long until it does (default: 0)",
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Ask until the server takes requests or the time is over."""
    end = time.monotonic() + given.wait
    with open_client(given, max_attempts=1) as client:
        while not _is_serving(client, is_last=time.monotonic() >= end):
            time.sleep(_POLL_SECONDS)
    print("serving")
    return ExitCode.DONE


def _is_serving(client: headrace.Client, *, is_last: bool) -> bool:
    """Tell whether the server takes requests; if not, the last time raises the reason."""
    try:
        if client.check_health():
            return True
        if is_last:
            # Asking for the model tells why.
            client.get_model(timeout=5.0)
            raise CommandError("The server takes no requests at the moment.")
    except headrace.HeadraceError:
        if is_last:
            raise
    return False
