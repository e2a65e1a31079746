"""Shares a few places between callers, so that one who keeps them busy holds up itself alone."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_server.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """How many there are.

    Args:
        num_slots: places.
        num_slots_per_caller: places that one caller can have at once.
        max_waiting: those who wait for a place.
        max_waiting_per_caller: those of one caller.
        retry_after_seconds: when one who was refused should try again.
    """

    num_slots: int
    num_slots_per_caller: int
    max_waiting: int
    max_waiting_per_caller: int
    retry_after_seconds: float


class FairSlots:
    """Places that callers take turns at."""

    def __init__(self, limits: SlotLimits) -> None:
        self._limits = limits
        self._num_taken: Counter[str] = Counter()
        # In the order of their turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def take(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place; leaving gives it back.

        Raises:
            OverloadedError: too many wait.
        """
        await self._wait(caller)
        try:
            yield
        finally:
            self._give_back(caller)

    async def _wait(self, caller: str) -> None:
        place = self._queue(caller)
        self._hand_out()
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._withdraw(caller, place)
            else:  # it was given in the same moment
                self._give_back(caller)
            raise

    def _queue(self, caller: str) -> asyncio.Future[None]:
        num_own = len(self._waiting.get(caller, ()))
        num_waiting = sum(len(places) for places in self._waiting.values())
        limits = self._limits
        if num_waiting >= limits.max_waiting or num_own >= limits.max_waiting_per_caller:
            message = "The server has too many constraints to check; try again."
            raise OverloadedError(message, limits.retry_after_seconds)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(caller, deque()).append(place)
        return place

    def _withdraw(self, caller: str, place: asyncio.Future[None]) -> None:
        places = self._waiting.get(caller, deque())
        if place in places:
            places.remove(place)
            if not places:
                del self._waiting[caller]

    def _give_back(self, caller: str) -> None:
        self._num_taken[caller] -= 1
        if not self._num_taken[caller]:
            del self._num_taken[caller]
        self._hand_out()

    def _hand_out(self) -> None:
        while (caller := self._next_caller()) is not None:
            places = self._waiting.pop(caller)
            place = places.popleft()
            if places:
                self._waiting[caller] = places  # behind all others
            if not place.done():  # one that is cancelled has not withdrawn yet
                place.set_result(None)
                self._num_taken[caller] += 1

    def _next_caller(self) -> str | None:
        if self._num_taken.total() >= self._limits.num_slots:
            return None
        most = self._limits.num_slots_per_caller
        return next((each for each in self._waiting if self._num_taken[each] < most), None)
