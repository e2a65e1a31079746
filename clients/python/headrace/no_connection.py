"""What gRPC says where no connection comes about → a sentence that says what to do; pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.channel import Address

GRPC_PORT_HINT = "Give the gRPC port, which is 1920 by default, not the HTTP port."

_DISTRUST = re.compile(r"CERTIFICATE_VERIFY_FAILED: (?P<reason>[^:]*)")
# How a connection ends whose other side did not like its beginning, or its certificate.
_HANG_UPS = ("Socket closed", "Connection reset by peer", "Broken pipe")


def why_no_connection(text: str, address: Address) -> str:
    """Return a sentence about the text of a status UNAVAILABLE for lack of a connection."""
    if "Failed parsing HTTP/2" in text or "http1" in text:
        return f"{address} does not speak gRPC. {GRPC_PORT_HINT}"
    if "missing selected ALPN" in text:
        return f"{address} speaks TLS but not gRPC. {GRPC_PORT_HINT}"
    if "WRONG_VERSION_NUMBER" in text:
        return f"{address} does not speak TLS. Connect without it, or give the port that has it."
    if "Hostname Verification Check failed" in text:
        return (
            f"The certificate of {address} is for another name. Connect by a name that it has, or "
            "give such a name as server_name of headrace.Tls."
        )
    if distrust := _DISTRUST.search(text):
        return _why_not_trusted(distrust["reason"], address)
    if any(words in text for words in _HANG_UPS):
        return _why_hung_up(address)
    return (
        f"Nothing answers at {address} ({text.rpartition(': ')[2]}). "
        "Start a server with `headrace serve`, or check the address."
    )


def _why_not_trusted(reason: str, address: Address) -> str:
    if "issuer" in reason or "self-signed" in reason or "self signed" in reason:
        return (
            f"The certificate of {address} is not trusted ({reason}). Give the certificate of its "
            "authority, or itself, as ca_certs of headrace.Tls (--ca-certs on the command line)."
        )
    return f"The certificate of {address} is not valid ({reason}). The server needs another one."


def _why_hung_up(address: Address) -> str:
    if not address.has_tls:
        return (
            f"{address} broke off the connection at once, as a port with TLS does. "
            "Give tls (--tls or --ca-certs on the command line)."
        )
    if not address.has_certificate:
        return (
            f"{address} broke off the connection at once, as a server does that wants a "
            "certificate of its client. Give certfile and keyfile of headrace.Tls (--certfile and "
            "--keyfile on the command line)."
        )
    return (
        f"{address} broke off the connection at once, as a server does that does not trust the "
        "certificate of its client. Give one of an authority that it trusts."
    )
