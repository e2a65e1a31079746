"""The command line: `headrace serve`, `chat`, `generate`, `models`, `health` and `version`."""

from headrace.cli.program import main

__all__ = ["main"]
