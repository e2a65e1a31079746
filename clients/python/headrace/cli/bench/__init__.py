"""`headrace bench`: a small load client for a running server."""

from headrace.cli.bench.command import add_to

__all__ = ["add_to"]
