"""The engine's end of the socket to the front; blocking, without threads."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

import msgspec

from headrace_server.engine.frames import FrameBuffer, encode_frame
from headrace_server.engine.messages import FrontMessage
from headrace_server.engine.settings import EngineSettings

if TYPE_CHECKING:
    import socket

    from headrace_server.engine.messages import EngineMessage

_READ_BYTES = 256 * 1024

_settings_decoder = msgspec.msgpack.Decoder(EngineSettings)
_message_decoder = msgspec.msgpack.Decoder[FrontMessage](FrontMessage)


class FrontGoneError(Exception):
    """The front has closed the socket or has died."""


class FrontChannel:
    """Messages from and to the front.

    Args:
        connection: a connected stream socket; it becomes non-blocking.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._buffer = FrameBuffer()
        self._bodies: list[bytes] = []

    def receive_settings(self) -> EngineSettings:
        """Wait for the first frame.

        Raises:
            FrontGoneError: there is none to come.
        """
        while not self._bodies:
            self._wait(select.POLLIN, timeout_seconds=None)
            self._read()
        return _settings_decoder.decode(self._bodies.pop(0))

    def receive(self, timeout_seconds: float) -> list[FrontMessage]:
        """Return the messages that have come, waiting for the first if there is none.

        Raises:
            FrontGoneError: there are none to come.
        """
        self._wait(select.POLLIN, 0.0 if self._bodies else timeout_seconds)
        while self._read():
            pass
        bodies, self._bodies = self._bodies, []
        return [_message_decoder.decode(body) for body in bodies]

    def send(self, message: EngineMessage) -> None:
        """Send a message, waiting while the front is slow to read.

        What the front sends in the meantime is read, so that two full sockets never
        wait for each other.

        Raises:
            FrontGoneError: nobody is there to read it.
        """
        rest = memoryview(encode_frame(message))
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                if self._wait(select.POLLIN | select.POLLOUT, timeout_seconds=None) & select.POLLIN:
                    self._read()
            except (BrokenPipeError, ConnectionResetError) as error:
                raise FrontGoneError from error

    def _wait(self, events: int, timeout_seconds: float | None) -> int:
        poll = select.poll()
        poll.register(self._socket, events)
        ready = poll.poll(None if timeout_seconds is None else timeout_seconds * 1000)
        return ready[0][1] if ready else 0

    def _read(self) -> bool:
        """Take what lies in the socket; False when nothing does."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except ConnectionResetError as error:
            raise FrontGoneError from error
        if not data:
            raise FrontGoneError
        self._bodies += self._buffer.feed(data)
        return True
