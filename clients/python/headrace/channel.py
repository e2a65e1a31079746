"""Where a client connects to, how, and with which channel options and metadata; pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.metadata import version
from ipaddress import ip_address
from typing import Any

DEFAULT_PORT = 1920
DEFAULT_TARGET = f"localhost:{DEFAULT_PORT}"
DEFAULT_MAX_ATTEMPTS = 3
# The service whose health says that requests are taken.
HEALTH_SERVICE = "headrace.v1.InferenceService"

# A server that vanished is noticed after the sum of the two. The server allows a ping
# every 10 s.
_KEEPALIVE_MILLISECONDS = 30_000
_PING_TIMEOUT_MILLISECONDS = 10_000

_GRPC_SCHEMES = ("dns:", "ipv4:", "ipv6:", "unix:", "unix-abstract:", "vsock:", "xds:")
# What may stand in a header: visible ASCII.
_KEY = re.compile(r"[!-~]+")
_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:/\s]+)(:(?P<port>\d{1,5}))?")


@dataclass(frozen=True, slots=True)
class Address:
    """What a client connects to; as text it is what gRPC is given.

    Args:
        name: that `parse_target` returned.
        has_tls: the connection is encrypted.
        has_certificate: the client proves by a certificate who it is.
    """

    name: str
    has_tls: bool = False
    has_certificate: bool = False

    def __str__(self) -> str:
        return self.name


def parse_target(target: str) -> str:
    """Return the address that gRPC is given for `target`.

    Args:
        target: ``host:port``, ``host`` (port 1920), an IPv6 address with or without
            brackets, or a name of gRPC such as ``unix:/run/headrace.sock``.

    Raises:
        ValueError: it is none of these.
    """
    if target.startswith(_GRPC_SCHEMES):
        return target
    host_and_port = _HOST_AND_PORT.fullmatch(f"[{target}]" if _is_ipv6(target) else target)
    if host_and_port is None or int(host_and_port["port"] or DEFAULT_PORT) > 65535:
        raise ValueError(
            f"{target!r} is not an address: give host:port of the gRPC port, "
            f"such as {DEFAULT_TARGET}"
        )
    return f"{host_and_port['host']}:{host_and_port['port'] or DEFAULT_PORT}"


def key_metadata(api_key: str | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata of each call that tell who is calling.

    Raises:
        ValueError: the key cannot be sent; the sentence does not tell it.
    """
    if api_key is None:
        return ()
    if not _KEY.fullmatch(api_key):
        raise ValueError("api_key must be visible ASCII characters without spaces, at least one")
    return (("authorization", f"Bearer {api_key}"),)


def channel_options(
    address: str, max_attempts: int, server_name: str | None = None
) -> list[tuple[str, Any]]:
    """Return the channel options for an address that `parse_target` returned.

    The limits for messages stay gRPC's own: none for requests, where the server's
    holds, and 4 MiB for responses, which the contract keeps to.

    Args:
        address: of the server.
        max_attempts: the number of times that a call is made at most.
        server_name: the one in the server's certificate, where it is not that of the address.

    Raises:
        ValueError: `max_attempts` is not from 1 to 5, the most that gRPC takes.
    """
    if not 1 <= max_attempts <= 5:
        raise ValueError(f"max_attempts must be from 1 to 5, not {max_attempts}")
    options: list[tuple[str, Any]] = [
        ("grpc.primary_user_agent", f"headrace-python/{version('headrace')}"),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MILLISECONDS),
        ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MILLISECONDS),
        # Without it the ping of a silent call counts, and its timeout is a minute.
        ("grpc.http2.ping_timeout_ms", _PING_TIMEOUT_MILLISECONDS),
        # A long prefill is silent: keep pinging through it.
        ("grpc.http2.max_pings_without_data", 0),
        # The server bounds the streams of a connection; clients must not share one.
        ("grpc.use_local_subchannel_pool", 1),
        # A proxy of the environment cannot reach the loopback of this machine.
        ("grpc.enable_http_proxy", 0 if _is_loopback(address) else 1),
        ("grpc.service_config", json.dumps(_service_config(max_attempts))),
    ]
    if server_name is not None:
        options.append(("grpc.ssl_target_name_override", server_name))
    return options


def _service_config(max_attempts: int) -> dict[str, Any]:
    """Retry what had no effect. gRPC retries only until the response headers, which the
    server sends on admission, and waits as long as the server's pushback says.
    """
    if max_attempts == 1:
        return {}
    services = (HEALTH_SERVICE, "headrace.v1.ModelService")
    retry_policy = {
        "maxAttempts": max_attempts,
        "initialBackoff": "0.2s",
        "maxBackoff": "5s",
        "backoffMultiplier": 3,
        "retryableStatusCodes": ["UNAVAILABLE", "RESOURCE_EXHAUSTED"],
    }
    return {
        "methodConfig": [
            {"name": [{"service": name} for name in services], "retryPolicy": retry_policy}
        ],
        # After 5 failures in a row there are no retries until calls succeed again, so
        # that clients do not hold an overloaded server down.
        "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1},
    }


def _is_ipv6(host: str) -> bool:
    try:
        return ip_address(host).version == 6
    except ValueError:
        return False


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or address.startswith(("unix:", "unix-abstract:"))
