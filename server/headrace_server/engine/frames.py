"""How messages lie on the socket between the front and the engine: length-prefixed msgpack.

Both sides use it; it does no I/O.
"""

from __future__ import annotations

import struct

import msgspec

# The largest frame to the engine carries one prompt at 5 bytes a token, so that this is room for
# a context of 13 million tokens. The largest to the front carries the log probabilities of the
# prompts of one step: with 20 likely tokens each, about 300 bytes a token, room for steps of 200
# thousand tokens. A larger length means that the stream is out of step.
MAX_FRAME_BYTES = 64 * 1024 * 1024

_LENGTH = struct.Struct("<I")
LENGTH_BYTES = _LENGTH.size

_encoder = msgspec.msgpack.Encoder()


class FrameError(Exception):
    """The bytes on the socket are not a sequence of frames."""


def encode_frame(message: msgspec.Struct) -> bytes:
    """Lay out one message.

    Raises:
        FrameError: it is larger than `MAX_FRAME_BYTES`.
    """
    body = _encoder.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a message of {len(body)} bytes is too large to send")
    return _LENGTH.pack(len(body)) + body


def decode_length(data: bytes | bytearray, offset: int = 0) -> int:
    """Read the number of body bytes from the `LENGTH_BYTES` at `offset`.

    Raises:
        FrameError: it is larger than `MAX_FRAME_BYTES`.
    """
    (length,) = _LENGTH.unpack_from(data, offset)
    if length > MAX_FRAME_BYTES:
        raise FrameError(f"a frame of {length} bytes is announced")
    return int(length)


class FrameBuffer:
    """Cuts bytes, as they come, into the bodies of frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes and return the bodies that are complete.

        Raises:
            FrameError: a length is out of range.
        """
        self._bytes += data
        bodies = []
        begin = 0
        while len(self._bytes) - begin >= LENGTH_BYTES:
            body = begin + LENGTH_BYTES
            end = body + decode_length(self._bytes, begin)
            if len(self._bytes) < end:
                break
            bodies.append(bytes(self._bytes[body:end]))
            begin = end
        del self._bytes[:begin]
        return bodies
