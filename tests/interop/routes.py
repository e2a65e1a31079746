"""The ways from a client to a server: each opens one and tells how a client takes it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.deploy.envoy_process import running_envoy
from tests.interop.certificates import Certificates, make_certificates
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
        has_programs: whether the programs are tried on it, too; they show the least and the most
            flags of a client.
        ends_with_server: whether nobody listens when the server is gone.
        num_tries: how often the server sees a call that it refuses so that it may be sent again.
    """

    name: str
    says: str
    open: Callable[..., AbstractAsyncContextManager[Way]]
    has_programs: bool = False
    ends_with_server: bool = True
    num_tries: int = 1


def _straight(
    server_flags: Callable[[Certificates], tuple[str, ...]] = lambda _: (),
    client_flags: Callable[[Certificates], tuple[str, ...]] = lambda _: (),
) -> Callable[..., AbstractAsyncContextManager[Way]]:
    """Straight to the server, with what both sides are given for it."""

    @asynccontextmanager
    async def open_way(*flags: object) -> AsyncIterator[Way]:
        with TemporaryDirectory() as folder:
            made = make_certificates(Path(folder))
            async with (
                server_process(*flags, *server_flags(made)) as server,
                wire_to(server.address) as wire,
            ):
                yield Way(wire.target, client_flags(made), wire, server)

    return open_way


@asynccontextmanager
async def _through_envoy(*flags: object) -> AsyncIterator[Way]:
    """Through the Envoy of deploy/envoy, which has TLS on its own side only."""
    with TemporaryDirectory() as folder:
        made = make_certificates(Path(folder))
        made.name_for_envoy()
        async with (
            server_process(*flags) as server,
            running_envoy("tls", [server.address], certificates=folder) as envoy,
            wire_to(envoy.tls) as wire,
        ):
            await envoy.wait_for_healthy(1)
            yield Way(wire.target, made.client_flags, wire, server)


PLAIN = Route("plain", "without encryption", _straight(), has_programs=True)
ROUTES = (
    PLAIN,
    Route(
        "tls",
        "TLS with a certificate of the server",
        _straight(lambda made: made.server_flags, lambda made: made.client_flags),
    ),
    Route(
        "mtls",
        "TLS with certificates of both sides",
        _straight(lambda made: made.mutual_server_flags, lambda made: made.mutual_client_flags),
        has_programs=True,
    ),
    Route(
        "envoy",
        "TLS to the Envoy of deploy/envoy",
        _through_envoy,
        ends_with_server=False,
        num_tries=3,  # it sends again twice what has had no effect
    ),
)
