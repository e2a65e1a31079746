"""The answers about the state of the gateway."""

from __future__ import annotations

import msgspec


class Status(msgspec.Struct, frozen=True):
    """All is well; what is not is an error."""

    status: str = "ok"


class Version(msgspec.Struct, frozen=True):
    """The version of Headrace."""

    version: str


class Load(msgspec.Struct, frozen=True):
    """The number of generations under way, under vLLM's name."""

    server_load: int
