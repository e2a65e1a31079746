"""Finds environment variables that look like settings and are none."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from headrace_server.config_file import GATEWAY_NAMES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_PREFIX: Final = "HEADRACE_"
# The gateway refuses what it does not know of these.
_GATEWAY_PREFIX: Final = "HEADRACE_GATEWAY_"
_OTHERS: Final = frozenset(
    {
        "HEADRACE_CACHE_DIR",  # of converted models
        "HEADRACE_HOST",  # of HTTP
        "HEADRACE_TARGET",  # of the commands that call a server
        *(_PREFIX + name.replace("-", "_").upper() for name in GATEWAY_NAMES),
    }
)
# Kubernetes tells containers of each Service, and one may be called headrace:
# https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
_SERVICE_LINK: Final = re.compile(
    r"\w+_SERVICE_(HOST|PORT(_\w+)?)|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)
_SERVICE_URL: Final = re.compile(r"(tcp|udp|sctp)://")


def find_unknown_variable(environment: Mapping[str, str], known: Collection[str]) -> str | None:
    """Return a sentence about a variable that no program reads; None where there is none.

    Args:
        environment: of the process.
        known: the variables that this program reads.
    """
    names = {*known, *_OTHERS}
    for name, value in environment.items():
        is_own = name.startswith(_PREFIX) and not name.startswith(_GATEWAY_PREFIX)
        if is_own and name not in names and not _is_service_link(name, value):
            return f"{name} is no setting; {_hint(name, names)}"
    return None


def _hint(name: str, names: Collection[str]) -> str:
    # Without what all of them begin with, which would make them all alike.
    ends = sorted(name.removeprefix(_PREFIX) for name in names)
    near = get_close_matches(name.removeprefix(_PREFIX), ends, n=1)
    return f"did you mean {_PREFIX}{near[0]}?" if near else "remove it; docs/flags.md lists them"


def _is_service_link(name: str, value: str) -> bool:
    if name.endswith("_PORT") and _SERVICE_URL.match(value):
        return True
    return _SERVICE_LINK.fullmatch(name) is not None
