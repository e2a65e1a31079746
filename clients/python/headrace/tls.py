"""Encryption of a connection: whom the client trusts, and how it proves itself."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from os import PathLike

# Where it is set, gRPC reads that file itself.
_ROOTS_OF_GRPC = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"


@dataclass(frozen=True, slots=True)
class Tls:
    """How a connection is encrypted. The files are read once, when the client is made.

    Args:
        ca_certs: a PEM file with the certificates that are trusted: of authorities, or that of
            the server itself; None trusts the authorities that this system trusts.
        certfile: a PEM file with the certificate by which the client proves who it is, for
            servers that ask for one; those between it and its authority follow it.
        keyfile: the PEM file of its private key.
        server_name: the name that the server's certificate has, where it is another than that
            of the target.

    Raises:
        ValueError: there is one of certfile and keyfile without the other.
    """

    ca_certs: str | PathLike[str] | None = None
    certfile: str | PathLike[str] | None = None
    keyfile: str | PathLike[str] | None = None
    server_name: str | None = None

    def __post_init__(self) -> None:
        if (self.certfile is None) != (self.keyfile is None):
            raise ValueError("certfile and keyfile belong together: give both or neither")


def channel_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Read the files.

    Raises:
        ValueError: one of them cannot be used; the sentence begins with its name in `Tls`.
    """
    roots = _system_roots() if tls.ca_certs is None else _read_roots(tls.ca_certs)
    if tls.certfile is None or tls.keyfile is None:
        return grpc.ssl_channel_credentials(roots)
    certificate, key = _read("certfile", tls.certfile), _read("keyfile", tls.keyfile)
    _check_pair(tls.certfile, tls.keyfile)
    return grpc.ssl_channel_credentials(roots, key, certificate)


def _system_roots() -> bytes | None:
    """Return what OpenSSL trusts, for gRPC alone knows a list of its own; None for that list."""
    if os.environ.get(_ROOTS_OF_GRPC):
        return None
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode() or None


def _read_roots(path: str | PathLike[str]) -> bytes:
    content = _read("ca_certs", path)
    try:  # gRPC would tell of a bad file in its log only
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as error:
        raise ValueError(f"ca_certs: {str(path)!r} holds no certificate in PEM form") from error
    return content


def _check_pair(certfile: str | PathLike[str], keyfile: str | PathLike[str]) -> None:
    def refuse_password() -> str:
        raise ValueError(f"keyfile: {str(keyfile)!r} has a password; give a key without one")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certfile, keyfile, refuse_password)
    except ssl.SSLError as error:
        raise ValueError(
            f"keyfile: {str(keyfile)!r} holds no key in PEM form that belongs to the certificate "
            f"in {str(certfile)!r}"
        ) from error


def _read(name: str, path: str | PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: cannot read {str(path)!r}: {error.strerror}") from error
