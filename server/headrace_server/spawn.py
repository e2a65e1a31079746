"""Starts a process of the server that talks to this one over a socket of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_STDERR = 2
_SECRETS = ("HEADRACE_API_KEY", "HEADRACE_GATEWAY_API_KEY")


async def spawn_child(
    module: str, theirs: socket.socket, *arguments: str
) -> asyncio.subprocess.Process:
    """Run a module in a fresh interpreter, not a fork: threads and gRPC of this process stay here.

    Args:
        module: run with ``--fd`` and the arguments.
        theirs: the child's end of a pair. It is closed here, so that the child's is the only one
            and the child's end is our EOF.
        arguments: of the module.
    """
    descriptor = theirs.fileno()
    # Keys of callers are nothing to those who run models and grammars.
    environment = {name: value for name, value in os.environ.items() if name not in _SECRETS}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, "--fd", str(descriptor), *arguments),
        env=environment,
        pass_fds=(descriptor,),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=_STDERR,  # what a library prints must not mix with our own output
    )
    theirs.close()
    return process
