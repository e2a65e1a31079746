"""Who calls: the name of a key where there are keys, else a certificate or a connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headrace_server.api_keys import read_bearer
from headrace_server.errors import UnauthenticatedError
from headrace_server.rpc.convert.checks import is_label

if TYPE_CHECKING:
    from collections.abc import Iterable

    from grpc import aio

    from headrace_server.api_keys import ApiKeys

KEY_HEADER: Final = "authorization"
# What a proxy, such as the gateway, calls the caller behind it.
CALLER_HEADER: Final = "x-headrace-caller"

_NO_KEY: Final = (
    "There is no valid API key; send one as the metadata authorization: Bearer KEY, and no other."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose call it is.

    Args:
        name: the engine, the checks of grammars and the labels of requests are shared by it.
        key_name: whose key it is; empty where there are no keys.
    """

    name: str
    key_name: str = ""


class Callers:
    """Lets callers in by their keys and tells them apart.

    Args:
        keys: None lets everybody in.
        have_certificates: whether connections have client certificates.
    """

    def __init__(self, keys: ApiKeys | None, *, have_certificates: bool) -> None:
        self._keys = keys
        self._have_certificates = have_certificates

    def authenticate(self, metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
        """Return whose key is in the metadata; an empty name where there are no keys.

        Raises:
            UnauthenticatedError: there is none, a wrong one, or more than one.
        """
        if self._keys is None:
            return ""
        values = [value for key, value in metadata or () if key == KEY_HEADER]
        header = values[0] if len(values) == 1 else ""
        name = self._keys.find(read_bearer(header) if isinstance(header, str) else None)
        if name is None:
            raise UnauthenticatedError(_NO_KEY)
        return name

    def identify(self, context: aio.ServicerContext[Any, Any], key_name: str) -> Caller:
        """Say who calls.

        Args:
            context: of the call.
            key_name: what `authenticate` has returned; empty for a service that is open.
        """
        if key_name:
            return Caller(key_name, key_name)
        peer = (self._have_certificates and _subject(context)) or context.peer()
        behind = None if self._keys is not None else _caller_behind(context)
        return Caller(peer if behind is None else f"{peer}/{behind}")


def _subject(context: aio.ServicerContext[Any, Any]) -> str | None:
    """The subject of the client certificate, or the names that it has instead."""
    subject = b"".join(context.auth_context().get("x509_subject", ()))
    names = subject or b",".join(context.peer_identities() or ())
    return names.decode("utf-8", "replace") or None


def _caller_behind(context: aio.ServicerContext[Any, Any]) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == CALLER_HEADER:
            return value if isinstance(value, str) and is_label(value) else None
    return None
