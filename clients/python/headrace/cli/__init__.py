"""The command line: `headrace` with `serve`, `chat`, `generate` and the other commands."""

from headrace.cli.program import main

__all__ = ["main"]
