"""Whom the comparison measures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Sizing:
    """The room that a server needs.

    Args:
        num_streams: most requests at the same time.
        context_tokens: most tokens of a prompt and its answer together.
    """

    num_streams: int
    context_tokens: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Free ports of this machine; `grpc` is for Headrace only."""

    http: int
    grpc: int


@dataclass(frozen=True, slots=True)
class Launch:
    """How a server is started.

    Args:
        commands: the programs, all started at once.
        ready_path: its HTTP status is 200 when the server would answer.
        environment: variables on top of those of this process.
    """

    commands: tuple[tuple[str, ...], ...]
    ready_path: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that is installed here.

    Args:
        name: in tables.
        version: of what serves.
        weights: the numbers of the weights as they are multiplied.
        fields: what it wants in the body of every request.
        launch: starts it with room for a load, on these ports.
        flags: of Headrace, for a peer that is Headrace.
    """

    name: str
    version: str
    weights: str
    fields: Mapping[str, Any]
    launch: Callable[[Sizing, Ports], Launch]
    flags: tuple[str, ...] | None = None

    @property
    def is_headrace(self) -> bool:
        """Whether this is Headrace and no rival."""
        return self.flags is not None


@dataclass(frozen=True, slots=True)
class Absence:
    """A rival that is not compared, and why."""

    name: str
    reason: str
