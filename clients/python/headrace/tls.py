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
    """Read the files for gRPC.

    Raises:
        ValueError: one of them cannot be used; the sentence begins with its name in `Tls`.
    """
    # gRPC would tell of a bad file in its log only, at the first call.
    context = ssl_context(tls)
    roots = _system_roots(context) if tls.ca_certs is None else Path(tls.ca_certs).read_bytes()
    if tls.certfile is None or tls.keyfile is None:
        return grpc.ssl_channel_credentials(roots)
    certificate, key = Path(tls.certfile).read_bytes(), Path(tls.keyfile).read_bytes()
    return grpc.ssl_channel_credentials(roots, key, certificate)


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Read the files for what is no gRPC; `server_name` is not in it.

    Raises:
        ValueError: one of them cannot be used; the sentence begins with its name in `Tls`.
    """
    for name in ("ca_certs", "certfile", "keyfile"):
        _check_readable(name, getattr(tls, name))
    try:
        context = ssl.create_default_context(cafile=tls.ca_certs)
    except ssl.SSLError as error:
        raise ValueError(f"ca_certs: {str(tls.ca_certs)!r} holds no certificate in PEM") from error
    # As in gRPC, curl and Go: the certificate of the server may be trusted itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.certfile is not None:
        _load_pair(context, tls)
    return context


def _system_roots(context: ssl.SSLContext) -> bytes | None:
    """Return what OpenSSL trusts, for gRPC alone knows a list of its own; None for that list."""
    if os.environ.get(_ROOTS_OF_GRPC):
        return None
    certificates = context.get_ca_certs(binary_form=True)
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates)).encode() or None


def _load_pair(context: ssl.SSLContext, tls: Tls) -> None:
    certfile, keyfile = str(tls.certfile), str(tls.keyfile)

    def refuse_password() -> str:
        raise ValueError(f"keyfile: {keyfile!r} has a password; give a key without one")

    try:
        context.load_cert_chain(certfile, keyfile, refuse_password)
    except ssl.SSLError as error:
        raise ValueError(
            f"keyfile: {keyfile!r} holds no key in PEM that belongs to the certificate in "
            f"{certfile!r}"
        ) from error


def _check_readable(name: str, path: str | PathLike[str] | None) -> None:
    if path is None:
        return
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: cannot read {str(path)!r}: {error.strerror}") from error
