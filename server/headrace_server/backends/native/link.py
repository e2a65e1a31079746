"""The front's end of the socket to the engine: frames over asyncio streams."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from headrace_server.engine.frames import LENGTH_BYTES, FrameError, decode_length, encode_frame
from headrace_server.engine.messages import EngineMessage

if TYPE_CHECKING:
    import socket

    from headrace_server.engine.messages import FrontMessage
    from headrace_server.engine.settings import EngineSettings

_decoder = msgspec.msgpack.Decoder[EngineMessage](EngineMessage)


class EngineLink:
    """Messages to and from one engine process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, connection: socket.socket) -> EngineLink:
        """Take over a connected stream socket."""
        return cls(*await asyncio.open_unix_connection(sock=connection))

    def send(self, message: EngineSettings | FrontMessage) -> None:
        """Send a message without waiting; to a dead engine it is dropped.

        What the socket cannot take yet is kept here. That is bounded: only live requests
        have unsent messages, one with the prompt and one short one each, and their
        number and their prompts are bounded by admission.
        """
        if not self._writer.is_closing():
            self._writer.write(encode_frame(message))

    async def receive(self) -> EngineMessage | None:
        """Wait for a message; None is the death notice of the engine.

        Raises:
            FrameError: what came is not a message.
        """
        try:
            length = decode_length(await self._reader.readexactly(LENGTH_BYTES))
            return _decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        except msgspec.DecodeError as error:
            raise FrameError(str(error)) from error

    async def close(self) -> None:
        """Close the socket and drop what is not sent yet."""
        self._writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
