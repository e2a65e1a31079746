"""Server-sent events as bytes; pure."""

from __future__ import annotations

DONE = b"data: [DONE]\n\n"
"""The event that ends a complete answer."""

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: clients ignore it, proxies see that the stream is alive."""


def encode(data: bytes) -> bytes:
    """Return one event. The data is one line, as JSON is."""
    return b"data: " + data + b"\n\n"
