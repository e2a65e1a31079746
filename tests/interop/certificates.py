"""Certificates for the routes with TLS, made anew for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import trustme
from cryptography.hazmat.primitives import serialization

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Certificates:
    """Files of an authority, a server of this machine and a client."""

    ca: Path
    server_cert: Path
    server_key: Path
    client_cert: Path
    client_key: Path

    @property
    def server_flags(self) -> tuple[str, ...]:
        """For a server that shows its certificate."""
        return ("--ssl-certfile", str(self.server_cert), "--ssl-keyfile", str(self.server_key))

    @property
    def client_flags(self) -> tuple[str, ...]:
        """For a client that checks that of the server."""
        return ("--ca-certs", str(self.ca))

    @property
    def mutual_server_flags(self) -> tuple[str, ...]:
        """For a server that wants one of the client, too."""
        return (*self.server_flags, "--ssl-ca-certs", str(self.ca))

    @property
    def mutual_client_flags(self) -> tuple[str, ...]:
        """For a client that shows one, too."""
        own = ("--certfile", str(self.client_cert), "--keyfile", str(self.client_key))
        return (*self.client_flags, *own)

    def name_for_envoy(self) -> None:
        """Give the files of the server the names that deploy/envoy has for them."""
        for name, file in (("tls.crt", self.server_cert), ("tls.key", self.server_key)):
            file.with_name(name).symlink_to(file.name)


def make_certificates(folder: Path) -> Certificates:
    """Make an authority and what it signs."""
    made = Certificates(
        *(folder / f"{name}.pem" for name in ("ca", "server", "server.key", "client", "client.key"))
    )
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made.ca)
    for names, cert, key in (
        (("localhost", "127.0.0.1"), made.server_cert, made.server_key),
        (("client.test",), made.client_cert, made.client_key),
    ):
        issued = authority.issue_cert(*names)
        key.write_bytes(_pkcs8(issued.private_key_pem.bytes()))
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(cert, append=number > 0)
    return made


def _pkcs8(pem: bytes) -> bytes:
    """A key in the form that Java reads as well as all others."""
    return serialization.load_pem_private_key(pem, password=None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
