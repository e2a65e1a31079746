"""The calls that need no key, such as a Watch of health: bounded, whoever makes them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace_server.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.rpc.calls import Call

MAX_OPEN_CALLS: Final = 1024
"""Some 26 KiB each, while a connection has 1,024 streams and there are 512 connections."""

OPEN_REQUEST_SECONDS: Final = 10.0
"""How long the message of such a call may take to come."""

_RETRY_SECONDS: Final = 1.0


class OpenCalls:
    """Holds those under way. When there is one too many, another ends.

    Args:
        max_calls: at a time.
    """

    def __init__(self, max_calls: int = MAX_OPEN_CALLS) -> None:
        self._max_calls = max_calls
        self._num_calls = 0
        # Of each connection, in the order of their arrival.
        self._calls: dict[str, dict[Call, None]] = {}

    @contextmanager
    def enter(self, call: Call) -> Iterator[None]:
        """Hold a call for the time of the body."""
        if self._num_calls >= self._max_calls:
            self._end_one()
        self._calls.setdefault(call.peer, {})[call] = None
        self._num_calls += 1
        try:
            yield
        finally:
            self._remove(call)

    def _end_one(self) -> None:
        """End the oldest of the connection that has the most: who has few keeps them."""
        peer = max(self._calls, key=lambda peer: len(self._calls[peer]))
        call = next(iter(self._calls[peer]))
        self._remove(call)
        call.end(OverloadedError("Too many calls without a key are open.", _RETRY_SECONDS))

    def _remove(self, call: Call) -> None:
        calls = self._calls.get(call.peer, {})
        if call not in calls:
            return  # it was ended to make room
        del calls[call]
        self._num_calls -= 1
        if not calls:
            del self._calls[call.peer]
