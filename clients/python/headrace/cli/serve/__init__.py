"""`headrace serve`: a server and a gateway for one machine, as two processes."""

from headrace.cli.serve.command import add_to

__all__ = ["add_to"]
