"""The ways from a client to a server: each opens one and tells how a client takes it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop.server import ServerProcess, server_process
from tests.interop.wire import Wire, wire_to

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager


@dataclass(frozen=True)
class Way:
    """A way to a server that runs.

    Args:
        target: where the client connects, as host:port.
        flags: the flags of a client for it, beside the target.
        wire: counts what goes over it.
        server: its end.
    """

    target: str
    flags: tuple[str, ...]
    wire: Wire
    server: ServerProcess


@dataclass(frozen=True)
class Route:
    """A kind of way.

    Args:
        name: in the matrix.
        says: what it is, in a few words.
        open: starts a server with these flags and whatever is between it and the client.
    """

    name: str
    says: str
    open: Callable[..., AbstractAsyncContextManager[Way]]


@asynccontextmanager
async def _plain(*flags: object) -> AsyncIterator[Way]:
    async with server_process(*flags) as server, wire_to(server.address) as wire:
        yield Way(wire.target, (), wire, server)


ROUTES = (Route("plain", "without encryption, straight to the server", _plain),)
