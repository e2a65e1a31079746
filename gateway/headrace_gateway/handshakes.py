"""The handshakes of TLS: a bounded number of them at a time, since each has memory of its own."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

HANDSHAKE_SECONDS: Final = 10.0
"""How long a client may take to agree on a key."""

GOODBYE_SECONDS: Final = 2.0
"""How long a client may take to answer the end of its connection."""


class Handshakes:
    """Stands at the listening port, and makes a connection once its client has agreed on a key.

    A server that is given a context itself tells nobody of a connection before that.

    Args:
        context: of the encryption.
        connect: makes what serves a connection.
        max_handshakes: at a time; with one more the oldest makes way, so that clients that only
            begin them keep nobody out.
    """

    def __init__(
        self, context: ssl.SSLContext, connect: Callable[[], asyncio.Protocol], max_handshakes: int
    ) -> None:
        self._context = context
        self._connect = connect
        self._max_handshakes = max_handshakes
        # In the order of their arrival.
        self._under_way: dict[socket.socket, asyncio.Task[None]] = {}

    def arrive(self) -> asyncio.Protocol:
        """Return what takes the next client."""
        return _Arrival(self._begin)

    def close(self) -> None:
        """Cut off all whose handshake is under way."""
        for client in self._under_way:
            _cut_off(client)

    def _begin(self, client: socket.socket) -> None:
        if len(self._under_way) >= self._max_handshakes:
            oldest = next(iter(self._under_way))
            self._under_way.pop(oldest)
            _cut_off(oldest)
        self._under_way[client] = asyncio.create_task(self._shake_hands(client))

    async def _shake_hands(self, client: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._connect,
                client,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=GOODBYE_SECONDS,
            )
        except OSError:  # those of ssl and of time are some
            return  # the socket is closed
        finally:
            self._under_way.pop(client, None)


def _cut_off(client: socket.socket) -> None:
    """End a connection, which its handshake notices; the socket is the loop's to close."""
    with suppress(OSError):  # it is no longer connected
        client.shutdown(socket.SHUT_RDWR)


class _Arrival(asyncio.Protocol):
    """A connection that has just come; its socket goes to another hand before anything is read."""

    def __init__(self, begin: Callable[[socket.socket], None]) -> None:
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        descriptor = os.dup(transport.get_extra_info("socket").fileno())
        cast("asyncio.Transport", transport).abort()
        client = socket.socket(fileno=descriptor)
        client.setblocking(False)
        self._begin(client)
