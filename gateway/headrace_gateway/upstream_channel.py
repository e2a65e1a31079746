"""The connection to the inference server: where it is, and how the two know each other."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

import grpc

from headrace_gateway.certificates import CertificateError, load_pair, load_roots, read_pem

if TYPE_CHECKING:
    from headrace_gateway.config import UpstreamTls

_OPTIONS: Final[tuple[tuple[str, int | str], ...]] = (
    # Each channel is a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
    # A server that comes back is found within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A server that is frozen or cut off is noticed.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # The server is next door, whatever proxy the environment names.
    ("grpc.enable_http_proxy", 0),
)

# Where systems keep the roots that OpenSSL was not told of.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class UpstreamChannels:
    """Opens connections to one server.

    Args:
        address: host and port, or ``unix:`` and a path.
        tls: None for no encryption.

    Raises:
        CertificateError: its files cannot be used.
    """

    def __init__(self, address: str, tls: UpstreamTls | None = None) -> None:
        self._address = address
        self._credentials = None if tls is None else _credentials(tls)
        self._options = list(_OPTIONS)
        if tls is not None and tls.server_name is not None:
            self._options.append(("grpc.ssl_target_name_override", tls.server_name))

    def open(self) -> grpc.aio.Channel:
        """Open one."""
        if self._credentials is None:
            return grpc.aio.insecure_channel(self._address, options=self._options)
        return grpc.aio.secure_channel(self._address, self._credentials, options=self._options)


def _credentials(tls: UpstreamTls) -> grpc.ChannelCredentials:
    # What gRPC cannot read it says of each connection anew; so OpenSSL reads it first.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    path = tls.ca_certs if isinstance(tls.ca_certs, Path) else _system_roots()
    roots = load_roots(context, path)
    if tls.pair is None:
        return grpc.ssl_channel_credentials(roots)
    load_pair(context, tls.pair)
    return grpc.ssl_channel_credentials(
        roots, read_pem(tls.pair.keyfile), read_pem(tls.pair.certfile)
    )


def _system_roots() -> Path:
    told = ssl.get_default_verify_paths().cafile
    for path in map(Path, filter(None, (told, *_BUNDLES))):
        if path.is_file():
            return path
    raise CertificateError(
        "This system has no file of certificates that it trusts; give one by "
        "--upstream-ssl-ca-certs."
    )
