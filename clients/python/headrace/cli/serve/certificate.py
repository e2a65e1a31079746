"""Reads of a certificate what those who connect need to know: its names, and who trusts it."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address

# Hello, the server's flight, the client's; TLS 1.2 has one more each.
_MAX_TURNS = 4


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate of a server.

    Args:
        names: of hosts and addresses; empty where they cannot be read.
        is_trusted: by what this system trusts.
    """

    names: tuple[str, ...]
    is_trusted: bool


def read_certificate(certfile: str, keyfile: str) -> Certificate:
    """Read a certificate by a handshake in memory, for Python has no other way to its names."""
    try:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certfile, keyfile)
        names = tuple(_names(_shake_hands(_trusting(certfile), server, None)))
        is_trusted = bool(names) and _is_trusted(server, names[0])
    except (OSError, ValueError):  # such as one that has expired, or that is being replaced
        return Certificate((), is_trusted=False)
    return Certificate(names, is_trusted)


def _trusting(certfile: str) -> ssl.SSLContext:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(certfile)
    return client


def _is_trusted(server: ssl.SSLContext, name: str) -> bool:
    try:
        _shake_hands(ssl.create_default_context(), server, name.replace("*", "any"))
    except ssl.SSLCertVerificationError:
        return False
    return True


def _shake_hands(
    client: ssl.SSLContext, server: ssl.SSLContext, name: str | None
) -> list[tuple[str, str]]:
    """Return the names of the server's certificate, each with its kind."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(_MAX_TURNS):
        for end in ends:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    certificate = ends[0].getpeercert() or {}
    return list(certificate.get("subjectAltName", ()))  # type: ignore[arg-type]


def _names(alternatives: list[tuple[str, str]]) -> list[str]:
    names = [value for kind, value in alternatives if kind == "DNS"]
    # OpenSSL does not shorten those of IPv6.
    return names + [str(ip_address(text)) for kind, text in alternatives if kind == "IP Address"]
