"""HTTPS: a context whose certificates are those that the files hold now."""

from __future__ import annotations

import logging
import ssl
import time
from typing import TYPE_CHECKING, Final

from headrace_gateway.certificates import CertificateError, load_pair, load_roots
from headrace_gateway.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace_gateway.config import ListeningTls

LOOK_SECONDS: Final = 1.0
"""How often the files are looked at, at most: when a client comes."""

_log = logging.getLogger(__name__)


class Https:
    """The encryption of new connections. Those that are there keep what they began with.

    Args:
        tls: the files.
        clock: in seconds.

    Raises:
        CertificateError: they cannot be used.

    Attributes:
        context: for the listening port, once and for all.
    """

    def __init__(self, tls: ListeningTls, clock: Callable[[], float] = time.monotonic) -> None:
        self._tls = tls
        self._clock = clock
        self._look_time = clock()
        # It comes first: what is written in the meantime is seen at the next look.
        self._signature = _signature(tls)
        self._current = _load(tls)
        self.context = self._current
        # Called in each handshake, also without a name. A context that has been replaced as a
        # whole trusts nobody whom the new files do not name.
        self.context.sni_callback = self._choose

    def _choose(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _: ssl.SSLContext
    ) -> None:
        self._look()
        connection.context = self._current

    def _look(self) -> None:
        now = self._clock()
        if now < self._look_time + LOOK_SECONDS:
            return
        self._look_time = now
        signature = _signature(self._tls)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            self._current = _load(self._tls)
        except CertificateError as error:
            log_event(
                _log, logging.ERROR, "bad certificate, the old one stays in use", cause=str(error)
            )
        else:
            log_event(
                _log, logging.INFO, "certificate read again", path=str(self._tls.pair.certfile)
            )


def _load(tls: ListeningTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_pair(context, tls.pair)
    if tls.ca_certs is not None:
        load_roots(context, tls.ca_certs)
        context.verify_mode = ssl.CERT_REQUIRED
        # A session that is resumed is not checked again, whoever is trusted by then. Those of
        # TLS 1.2 cannot be turned off from here.
        context.num_tickets = 0
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _signature(tls: ListeningTls) -> tuple[tuple[int, int, int, int] | None, ...]:
    files = (tls.pair.certfile, tls.pair.keyfile, tls.ca_certs)
    return tuple(_status(file) for file in files if file is not None)


def _status(file: Path) -> tuple[int, int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    # The third changes with the rights to read, too, after which a file is worth another look.
    return (status.st_mtime_ns, status.st_size, status.st_ctime_ns, status.st_ino)
