"""Certificates and their keys in files: what TLS takes, and words for what it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from pathlib import Path


class CertificateError(Exception):
    """A file cannot be used: one sentence that names it."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The files of a certificate and of its private key, in PEM."""

    certfile: Path
    keyfile: Path


def load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Give a context its certificate.

    Raises:
        CertificateError: a file cannot be read or used, or they do not belong together.
    """
    for path in (pair.certfile, pair.keyfile):
        read_pem(path)
    try:
        context.load_cert_chain(pair.certfile, pair.keyfile, password=_refuse_password)
    except OSError as error:  # those of ssl are some
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise CertificateError(
                f"{pair.keyfile} is not the private key of the certificate in {pair.certfile}."
            ) from error
        raise CertificateError(
            f"{pair.certfile} must hold a certificate in PEM, and {pair.keyfile} its private key."
        ) from error


def load_roots(context: ssl.SSLContext, path: Path) -> bytes:
    """Let a context trust those who signed for the certificates of a file; return its content.

    Raises:
        CertificateError: the file cannot be read or has no certificates.
    """
    content = read_pem(path)
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise CertificateError(f"{path} must hold certificates in PEM.") from error
    return content


def read_pem(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        CertificateError: it cannot be read.
    """
    try:
        # A pipe has no end before its writer comes, and nobody would be served until then.
        if path.exists() and not path.is_file():
            raise CertificateError(f"{path} is no regular file.")
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}.") from error


def _refuse_password() -> str:
    # Without this OpenSSL would ask for one at the terminal.
    raise CertificateError(
        "The private key is encrypted, and nobody is there to type its password; decrypt it "
        "with: openssl pkey -in OLD -out NEW."
    )
