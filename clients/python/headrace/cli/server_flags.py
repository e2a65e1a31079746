"""The flags that say which server, with which key and how encrypted; the clients for them."""

from __future__ import annotations

import argparse
import os
import re
from typing import TYPE_CHECKING, Any

import headrace
from headrace.channel import DEFAULT_TARGET, key_metadata, parse_target
from headrace.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    from headrace.cli.flags import Parser

TARGET_VARIABLE = "HEADRACE_TARGET"
KEY_VARIABLE = "HEADRACE_API_KEY"
_TLS_FLAGS = (
    ("--ca-certs", "PEM file of whom to trust, in place of the system's; implies --tls"),
    ("--certfile", "PEM file of a certificate to show to the server; implies --tls"),
    ("--keyfile", "PEM file of its private key"),
)


def add_server(parser: Parser) -> argparse._ArgumentGroup:
    """Add the group of flags that say which server and how to reach it, and return it."""
    group = parser.add_argument_group("server")
    group.add_argument(
        "--target",
        type=_target,
        metavar="HOST:PORT",
        default=os.environ.get(TARGET_VARIABLE) or DEFAULT_TARGET,
        help=f"gRPC address (default: {DEFAULT_TARGET}; env: {TARGET_VARIABLE})",
    )
    group.add_argument(
        "--api-key",
        type=_api_key,
        metavar="KEY",
        # The variable may be that of the server, which has several.
        default=os.environ.get(KEY_VARIABLE, "").partition(",")[0].strip() or None,
        help=f"where the server wants one (env: {KEY_VARIABLE}, which hides it from other users)",
    )
    group.add_argument("--tls", action="store_true", help="encrypt, and trust whom the system does")
    for flag, text in _TLS_FLAGS:
        group.add_argument(flag, metavar="FILE", help=text)
    return group


def add_model(group: argparse._ArgumentGroup) -> None:
    """Add the flag that says which model."""
    group.add_argument(
        "--model", metavar="NAME", help="name or alias of the model (default: the served one)"
    )


def open_client(given: argparse.Namespace, **options: Any) -> headrace.Client:
    """Return a blocking client of the server.

    Raises:
        CommandError: a file for TLS cannot be used.
    """
    _silence_grpc()
    try:
        return headrace.Client(given.target, api_key=given.api_key, tls=read_tls(given), **options)
    except ValueError as error:
        raise to_flag_error(error) from None


def open_async_client(given: argparse.Namespace, **options: Any) -> headrace.AsyncClient:
    """Return a client of the server for asyncio.

    Raises:
        CommandError: a file for TLS cannot be used.
    """
    _silence_grpc()
    tls = read_tls(given)
    try:
        return headrace.AsyncClient(given.target, api_key=given.api_key, tls=tls, **options)
    except ValueError as error:
        raise to_flag_error(error) from None


def read_tls(given: argparse.Namespace) -> headrace.Tls | None:
    """Return how the connection is encrypted; None for not at all."""
    if (given.certfile is None) != (given.keyfile is None):
        given.parser.error("--certfile and --keyfile belong together; give both or neither")
    if not given_tls_flags(given):
        return None
    return headrace.Tls(given.ca_certs, given.certfile, given.keyfile)


def given_tls_flags(given: argparse.Namespace) -> list[str]:
    """Return the flags of TLS that are on the command line."""
    flags = ["--tls"] if given.tls else []
    names = [flag for flag, _ in _TLS_FLAGS]
    return flags + [name for name in names if getattr(given, name[2:].replace("-", "_"))]


def to_flag_error(error: ValueError) -> CommandError:
    """Return an error that begins with the name of an option with that of its flag."""
    name = re.match(r"[a-z_]+", str(error))
    flag = "" if name is None else f"--{name[0].replace('_', '-')}"
    return CommandError(flag + str(error)[len(name[0]) if name else 0 :], ExitCode.USAGE)


def _silence_grpc() -> None:
    # It is read when gRPC is imported. What gRPC has to say comes as an error of a call, too,
    # of which the command makes a sentence.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _target(text: str) -> str:
    try:
        parse_target(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _api_key(text: str) -> str:
    try:
        key_metadata(text)
    except ValueError:  # not told: it may be a slip of the key
        raise argparse.ArgumentTypeError(
            "a key is visible ASCII characters without spaces, at least one"
        ) from None
    return text
