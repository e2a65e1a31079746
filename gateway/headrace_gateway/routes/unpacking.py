"""Unpacks a body that came as gzip or deflate, to its last byte and within its limit."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from headrace_gateway import errors

if TYPE_CHECKING:
    from collections.abc import Callable

_GZIP: Final = 16 + zlib.MAX_WBITS
_DEFLATE_METHOD: Final = 8


def unpack(body: bytes, encoding: str, max_bytes: int, too_large: Callable[[], Exception]) -> bytes:
    """Return the bytes that were packed.

    Args:
        body: as it came.
        encoding: gzip, deflate, or one that leaves the body as it is.
        max_bytes: the most that are unpacked, so that a bomb does not go off.
        too_large: makes the error about more.

    Raises:
        ApiError: 400, the body is cut off or not packed as `encoding` says.
    """
    if encoding not in ("gzip", "deflate"):
        return body
    parts: list[bytes] = []
    room = max_bytes + 1
    rest = body
    while True:  # gzip may have several members
        unpacker = zlib.decompressobj(_window_bits(encoding, rest))
        try:
            parts.append(unpacker.decompress(rest, room))
        except zlib.error:
            raise errors.packed_body() from None
        room -= len(parts[-1])
        if room <= 0:
            raise too_large()
        if not unpacker.eof:
            raise errors.packed_body()
        rest = unpacker.unused_data
        if not rest:
            return b"".join(parts)
        if encoding == "deflate":
            raise errors.packed_body()


def _window_bits(encoding: str, body: bytes) -> int:
    if encoding == "gzip":
        return _GZIP
    # Some clients leave the header of zlib out, which the standard asks for.
    has_header = bool(body) and body[0] & 0xF == _DEFLATE_METHOD
    return zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS
