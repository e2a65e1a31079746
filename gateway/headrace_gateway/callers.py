"""Who sends a request: whose key it has, or from where it comes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace_gateway import errors
from headrace_gateway.api_keys import ApiKeyError, read_bearer, to_api_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from multidict import CIMultiDictProxy

    from headrace_gateway.api_keys import ApiKeys


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller.

    Args:
        name: whose key was sent, where this gateway knows it; else the address; None where the
            connection has none any more.
        key: that was sent, for the server; None where there is none that it could take.
    """

    name: str | None
    key: str | None = field(default=None, repr=False)


def identify(
    headers: CIMultiDictProxy[str], address: str | None, keys: ApiKeys | None, *, is_open: bool
) -> Caller:
    """Return who sends a request.

    Args:
        headers: of the request.
        address: that it comes from.
        keys: those that are good; None asks nobody for one.
        is_open: whether no key is needed for what is asked.

    Raises:
        ApiError: 401, there is no good key where one is needed.
    """
    sent = _sent_keys(headers)
    # Of several it is not for us to choose one.
    key = sent[0] if len(sent) == 1 else None
    name = keys.find(key) if keys is not None and (key is not None or not is_open) else None
    if keys is not None and name is None and not is_open:
        raise errors.contradicting_keys() if len(sent) > 1 else errors.unauthenticated()
    return Caller(name or address, key if key is not None and _can_be_key(key) else None)


def _sent_keys(headers: CIMultiDictProxy[str]) -> Sequence[str]:
    """Return the keys of a request, each once."""
    bearers = map(read_bearer, headers.getall("Authorization", ()))
    keys = (*bearers, *(value.strip(" ") for value in headers.getall("X-Api-Key", ())))
    return tuple(dict.fromkeys(key for key in keys if key))


def _can_be_key(text: str) -> bool:
    try:
        to_api_key(text)
    except ApiKeyError:
        return False
    return True
