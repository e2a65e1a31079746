"""Connections on which nothing comes."""

import pytest

from headrace_gateway import connection

HALF_A_REQUEST = b"GET /livez HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    ("sent", "is_answered"),
    [(b"", False), (HALF_A_REQUEST, False), (HALF_A_REQUEST + b"\r\n", True)],
    ids=["nothing", "half a request", "a request"],
)
async def test_a_silent_connection_is_closed(start_gateway, monkeypatch, sent, is_answered):
    """A connection without a request, or with one that does not get whole, does not stay."""
    monkeypatch.setattr(connection, "IDLE_TIMEOUT_SECONDS", 0.2)
    gateway = await start_gateway()
    received = await gateway.exchange_bytes(sent)
    assert received.startswith(b"HTTP/1.1 200") == is_answered
    assert bool(received) == is_answered
