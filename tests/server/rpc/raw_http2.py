"""A client that speaks HTTP/2 frame by frame, for what no gRPC client does on purpose."""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager
from dataclasses import dataclass

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
ACK = END_STREAM = 1
END_HEADERS = 4
MAX_CONCURRENT_STREAMS = 3
CANCEL = 8


@dataclass(frozen=True)
class Frame:
    kind: int
    flags: int
    stream_id: int
    payload: bytes


class Connection:
    def __init__(self, reader, writer):
        self._reader = reader
        self._writer = writer

    def send(self, kind, flags=0, stream_id=0, payload=b""):
        header = struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream_id)
        self._writer.write(header + payload)

    def open_stream(self, stream_id, path, message):
        """Send a whole gRPC request."""
        self.send_headers(stream_id, path)
        self.send(DATA, END_STREAM, stream_id, struct.pack(">BI", 0, len(message)) + message)

    def send_headers(self, stream_id, path, *metadata):
        """Begin a gRPC request; `metadata` are pairs of bytes of at most 126 bytes each."""
        headers = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", path.encode()),
            (b":authority", b"localhost"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
            *metadata,
        ]
        block = b"".join(
            b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
            for name, value in headers
        )
        self.send(HEADERS, END_HEADERS, stream_id, block)

    def reset(self, stream_id):
        self.send(RST_STREAM, 0, stream_id, struct.pack(">I", CANCEL))

    async def flush(self):
        await self._writer.drain()

    async def receive(self):
        """Return the next frame; None when the server has closed the connection."""
        try:
            header = await self._reader.readexactly(9)
            payload = await self._reader.readexactly(int.from_bytes(header[:3]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        kind, flags, stream_id = struct.unpack(">BBI", header[3:])
        return Frame(kind, flags, stream_id, payload)


@asynccontextmanager
async def connect(address):
    """Open a connection and say hello."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        connection = Connection(reader, writer)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        connection.send(SETTINGS)
        yield connection
    finally:
        writer.close()
