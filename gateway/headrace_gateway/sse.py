"""Server-sent events as bytes; pure."""

from __future__ import annotations

DONE = b"data: [DONE]\n\n"
"""The event that ends a complete answer."""

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: clients ignore it, proxies see that the stream is alive."""


def encode(data: bytes, name: str = "") -> bytes:
    """Return one event, with a name where it is given. The data is one line, as JSON is."""
    event = f"event: {name}\n".encode() if name else b""
    return event + b"data: " + data + b"\n\n"
