"""Takes the port and the socket that the server listens on, with the certificates of TLS."""

from __future__ import annotations

import errno
import os
import socket
import stat
from typing import TYPE_CHECKING, Final

import grpc
from grpc import aio

from headrace_server.certificates import CertificateError, CertificateFiles
from headrace_server.rpc.channel_options import channel_options

if TYPE_CHECKING:
    from pathlib import Path

    from headrace_server.certificates import Certificates, TlsConfig
    from headrace_server.config import RpcConfig

# Whoever reads it may have started this program by `headrace serve`.
_PORT_FLAGS: Final = "--port (--grpc-port of headrace serve)"
# Of the system: sun_path, without its end.
_MAX_SOCKET_PATH_BYTES: Final = 107


class ListenError(Exception):
    """The server cannot listen; the message is one sentence that says what to do."""


def listen(config: RpcConfig) -> tuple[aio.Server, str]:
    """Make a gRPC server and take its port and its socket.

    Returns:
        The server and where it is, as host:port.

    Raises:
        ListenError: one of them cannot be had, or the certificates cannot be used.
    """
    credentials = None if config.tls is None else _to_credentials(config.tls)
    _check_port_is_free(config)
    server = aio.server(options=channel_options(config.connection))
    address = _take_port(server, config, credentials)
    if config.unix_socket is not None:
        _take_socket(server, config.unix_socket)
    return server, address


def not_bound(host: str, port: int, host_flag: str, port_flag: str, error: OSError) -> ListenError:
    """Say why an address cannot be had."""
    match error.errno:
        case errno.EADDRINUSE:
            return ListenError(
                f"Port {port} on {host} is taken; stop the program that has it or choose another "
                f"with {port_flag}."
            )
        case errno.EACCES:
            return ListenError(
                f"Port {port} needs more rights than this user has; choose one above 1023 with "
                f"{port_flag}."
            )
        case _:
            return ListenError(
                f"{host} is no address of this machine; choose another with {host_flag}."
            )


def _take_port(
    server: aio.Server, config: RpcConfig, credentials: grpc.ServerCredentials | None
) -> str:
    host = f"[{config.host}]" if ":" in config.host else config.host
    wanted = f"{host}:{config.port}"
    try:
        if credentials is None:
            port = server.add_insecure_port(wanted)
        else:
            port = server.add_secure_port(wanted, credentials)
    except RuntimeError as error:
        raise ListenError(
            f"Cannot listen on {wanted}; choose another port with {_PORT_FLAGS}."
        ) from error
    return f"{host}:{port}"


def _check_port_is_free(config: RpcConfig) -> None:
    """Try the port first: gRPC tells neither why it cannot have it, nor anything but in logs.

    Raises:
        ListenError: the port cannot be had.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        raise not_bound(config.host, config.port, "--host", _PORT_FLAGS, error) from error


def _take_socket(server: aio.Server, path: Path) -> None:
    """Listen on a socket that this user alone may connect to."""
    if len(os.fsencode(path)) > _MAX_SOCKET_PATH_BYTES:
        raise ListenError(
            f"{path} is too long for a socket; give --unix-socket a path of at most "
            f"{_MAX_SOCKET_PATH_BYTES} bytes."
        )
    _check_socket_is_free(path)
    # The socket has its mode from the start: changed later, there would be a moment before.
    old_mask = os.umask(0o177)
    try:
        server.add_insecure_port(f"unix:{path}")
    except RuntimeError as error:
        raise ListenError(
            f"Cannot make the socket {path}; give --unix-socket a path in a directory that exists "
            "and that this user may write to."
        ) from error
    finally:
        os.umask(old_mask)


def _check_socket_is_free(path: Path) -> None:
    """Require that gRPC, which takes the place of any socket, takes no live server's.

    Raises:
        ListenError: somebody listens on it, or it is no socket.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # nothing is there, or binding will say why nothing can be
    if not stat.S_ISSOCK(mode):
        raise ListenError(f"{path} is there and no socket; give --unix-socket another path.")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return  # its server is dead; gRPC replaces it
        except OSError:
            pass  # such as one with a full queue
    raise ListenError(
        f"Another program listens on {path}; stop it or give --unix-socket another path."
    )


def _to_credentials(config: TlsConfig) -> grpc.ServerCredentials:
    try:
        files = CertificateFiles(config)
    except CertificateError as error:
        raise ListenError(str(error)) from None

    def fetch() -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC in a thread of its own before each handshake; None changes nothing."""
        certificates = files.read_if_changed()
        return None if certificates is None else _to_grpc(certificates)

    return grpc.dynamic_ssl_server_credentials(
        _to_grpc(files.first),
        fetch,  # type: ignore[arg-type]  # the stubs forget the None
        require_client_authentication=config.ca_certs is not None,
    )


def _to_grpc(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(certificates.key, certificates.chain)], certificates.authorities
    )
