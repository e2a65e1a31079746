"""The options of the server's channels, all in one place, each with its reason.

gRPC ignores a key that it does not know, so the tests check what they do, not their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# Prompts of a million characters fit, and it is what clients of every language receive by default.
MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
# A request carries an id, a deadline and trace context: some hundred bytes.
MAX_METADATA_BYTES: Final = 8 * 1024
# Above what the engine runs and queues, so that overload is refused by admission and not held
# back by the transport, yet bounded: with no bound, 20,000 streams opened and reset on one
# connection make calls on other connections fail.
MAX_STREAMS_PER_CONNECTION: Final = 1024


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """How many connections there may be, and how dead, frozen and silent ones are found.

    Args:
        max_connections: more are closed at once. Each costs a descriptor and some 20 KiB,
            and the usual limit of descriptors is 1,024.
        handshake_seconds: a connection that has not opened HTTP/2 by then is closed; by
            gRPC's default it would live for two minutes.
        ping_seconds: a connection that was silent for this long is pinged.
        ping_timeout_seconds: it is closed when no answer comes for this long.
        min_client_ping_seconds: clients that ping more often than this are cut off.
            Clients are told that every 10 s is fine; half of it leaves room for jitter.
    """

    max_connections: int = 512
    handshake_seconds: float = 5.0
    ping_seconds: float = 10.0
    ping_timeout_seconds: float = 5.0
    min_client_ping_seconds: float = 5.0


def channel_options(config: ConnectionConfig) -> list[tuple[str, int]]:
    """Return the options for `grpc.aio.server`."""
    return [
        # By default two servers share a port silently, and clients see either.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
        ("grpc.max_concurrent_streams", MAX_STREAMS_PER_CONNECTION),
        ("grpc.max_allowed_incoming_connections", config.max_connections),
        ("grpc.server_handshake_timeout_ms", _milliseconds(config.handshake_seconds)),
        ("grpc.keepalive_time_ms", _milliseconds(config.ping_seconds)),
        ("grpc.keepalive_timeout_ms", _milliseconds(config.ping_timeout_seconds)),
        # Without it a frozen client is noticed after a minute, whatever the two above say.
        ("grpc.http2.ping_timeout_ms", _milliseconds(config.ping_timeout_seconds)),
        # A Watch, or a stream in the queue, is silent for long; a channel between two calls too.
        ("grpc.keepalive_permit_without_calls", 1),
        (
            "grpc.http2.min_ping_interval_without_data_ms",
            _milliseconds(config.min_client_ping_seconds),
        ),
    ]


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
