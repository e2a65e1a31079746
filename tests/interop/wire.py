"""A forwarder of TCP that counts: what a client really sends, whatever is inside."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

_PIECE_BYTES = 64 * 1024


@dataclass
class Wire:
    """A forwarder in front of a server.

    Attributes:
        target: where it listens, as host:port.
        num_sent_bytes: from the clients to the server so far.
        refuse: refuses connections from now on, as when nobody listened.
    """

    target: str
    refuse: Callable[[], None]
    num_sent_bytes: int = 0

    def count(self, num_bytes: int) -> None:
        self.num_sent_bytes += num_bytes


@asynccontextmanager
async def wire_to(address: str) -> AsyncIterator[Wire]:
    """Listen on a free port of the loopback interface and forward to an address."""
    host, _, port = address.rpartition(":")
    tasks: set[asyncio.Task] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(_forward(reader, writer, host, int(port), wire)))

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    wire = Wire(f"127.0.0.1:{listener.sockets[0].getsockname()[1]}", listener.close)
    try:
        yield wire
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int, wire: Wire
) -> None:
    try:
        there_reader, there_writer = await asyncio.open_connection(host, port)
    except OSError:  # the server is gone, which the client must see
        writer.transport.abort()
        return
    async with asyncio.TaskGroup() as both:
        both.create_task(_pump(reader, there_writer, wire.count))
        both.create_task(_pump(there_reader, writer, lambda _: None))


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]
) -> None:
    """Forward one direction to its end; the end of one side is the end of the other."""
    try:
        while piece := await reader.read(_PIECE_BYTES):
            count(len(piece))
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass  # a connection that was reset has ended
    finally:
        writer.close()
