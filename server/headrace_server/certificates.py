"""The files of TLS: what is in them, whether it fits together, and whether it has changed."""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias

from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from pathlib import Path

# What changes when files are written or replaced, or may be read at last.
_Signature: TypeAlias = tuple[tuple[int, int, int, int] | None, ...]

_log = logging.getLogger(__name__)


class CertificateError(Exception):
    """The files cannot be used; the message is one sentence that names the one at fault."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Where the files are, all of them in PEM.

    Args:
        certfile: the certificate, and those that lead to its authority.
        keyfile: its private key.
        ca_certs: the authorities of the certificates that clients must show; None asks for none.
    """

    certfile: Path
    keyfile: Path
    ca_certs: Path | None


@dataclass(frozen=True, slots=True)
class Certificates:
    """What is in the files, which fits together."""

    chain: bytes
    key: bytes = field(repr=False)
    authorities: bytes | None


class CertificateFiles:
    """The files of TLS, which may be replaced at any time. Threads may share it.

    Args:
        config: where they are.

    Raises:
        CertificateError: they cannot be read, or do not fit together.
    """

    def __init__(self, config: TlsConfig) -> None:
        self._config = config
        self._lock = Lock()
        # The signature comes first: what is written in the meantime is seen at the next look.
        self._signature = _signature(config)
        self.first = _read(config)

    def read_if_changed(self) -> Certificates | None:
        """Return what is in the files if that is new since the last look, and usable.

        What cannot be used is told in the log, once.
        """
        with self._lock:
            signature = _signature(self._config)
            if signature == self._signature:
                return None
            self._signature = signature
        try:
            certificates = _read(self._config)
        except CertificateError as error:
            log_event(
                _log, logging.ERROR, "bad certificate, the old one stays in use", cause=str(error)
            )
            return None
        log_event(_log, logging.INFO, "certificate read again", path=str(self._config.certfile))
        return certificates


def _read(config: TlsConfig) -> Certificates:
    chain, key = _read_bytes(config.certfile), _read_bytes(config.keyfile)
    _check_pair(config)
    if config.ca_certs is None:
        return Certificates(chain, key, None)
    authorities = _read_bytes(config.ca_certs)
    _check_authorities(config.ca_certs)
    return Certificates(chain, key, authorities)


def _read_bytes(path: Path) -> bytes:
    try:
        # A pipe has no end before its writer comes, and the handshake would wait for it.
        if path.exists() and not path.is_file():
            raise CertificateError(f"{path} is no regular file.")
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}.") from error


def _check_pair(config: TlsConfig) -> None:
    """Require a certificate and its key; gRPC itself says nothing of what is wrong."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.certfile, config.keyfile, password=_refuse_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError(
                f"{config.keyfile} is not the private key of the certificate in {config.certfile}."
            ) from error
        raise CertificateError(
            f"{config.certfile} must hold a certificate in PEM, and {config.keyfile} its private "
            "key."
        ) from error
    except OSError as error:
        raise CertificateError(
            f"{config.certfile} or {config.keyfile} cannot be read: {error.strerror}."
        ) from error


def _refuse_password() -> str:
    raise CertificateError(
        "The private key is encrypted, and nobody is there to type its password; decrypt it "
        "with: openssl pkey -in OLD -out NEW."
    )


def _check_authorities(path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise CertificateError(f"{path} must hold certificates in PEM.") from error
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}.") from error


def _signature(config: TlsConfig) -> _Signature:
    paths = (config.certfile, config.keyfile, config.ca_certs)
    return tuple(_file_signature(path) for path in paths if path is not None)


def _file_signature(path: Path) -> tuple[int, int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    # The third changes with the rights to read, too, after which a file is worth another look.
    return (status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino)
