"""`headrace version`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import headrace
from headrace.cli.errors import ExitCode

if TYPE_CHECKING:
    import argparse

    from headrace.cli.flags import Commands


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "version", help="print the version", description="Print the version."
    )
    parser.set_defaults(run=run)


def text() -> str:
    """Return the version as it is printed."""
    return f"headrace {headrace.__version__}"


def run(given: argparse.Namespace) -> int:
    """Print the version."""
    print(text())
    return ExitCode.DONE
