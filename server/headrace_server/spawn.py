"""Starts a process of the server that talks to this one over a socket of its own."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_STDERR = 2


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
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, "--fd", str(descriptor), *arguments),
        pass_fds=(descriptor,),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=_STDERR,  # what a library prints must not mix with our own output
    )
    theirs.close()
    return process
