"""Certificates for tests, in files as people have them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Pair:
    """The files of a certificate and of its key."""

    certfile: Path
    keyfile: Path

    def flags(self, prefix: str = "--ssl") -> tuple[str, ...]:
        return (f"{prefix}-certfile", str(self.certfile), f"{prefix}-keyfile", str(self.keyfile))


class Authority:
    """Signs certificates, and has its own in a file.

    Args:
        directory: where the files go.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._ca = trustme.CA()
        self._directory = directory
        self.file = directory / "authority.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, *names: str) -> Pair:
        """Sign a certificate for names or addresses."""
        certificate = self._ca.issue_cert(*names)
        pair = Pair(self._directory / f"{names[0]}.pem", self._directory / f"{names[0]}.key")
        certificate.private_key_pem.write_to_path(pair.keyfile)
        pair.certfile.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        return pair

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """Return what a client has that trusts this authority."""
        context = ssl.create_default_context(cafile=self.file)
        if pair is not None:
            context.load_cert_chain(pair.certfile, pair.keyfile)
        return context
