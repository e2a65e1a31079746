"""The generations under way, so that a stop can let them finish."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from headrace_gateway import errors
from headrace_gateway.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_log = logging.getLogger(__name__)


class InFlight:
    """Counts the generations and ends them when their time is up."""

    def __init__(self) -> None:
        self._scopes: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.is_draining = False

    @property
    def num_live(self) -> int:
        """The number of generations under way."""
        return len(self._scopes)

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Hold a generation for the time of the body.

        Raises:
            ApiError: 503, the gateway is about to stop, or has ended the body by itself.
        """
        if self.is_draining:
            raise errors.draining()
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._scopes.add(scope)
                self._idle.clear()
                try:
                    yield
                finally:
                    self._scopes.discard(scope)
        except TimeoutError:
            if not scope.expired():
                raise
            raise errors.stopped() from None
        finally:
            if not self._scopes:
                self._idle.set()

    async def drain(self, timeout_seconds: float) -> None:
        """Refuse new generations, wait for those under way, then end what is left."""
        self.is_draining = True
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            log_event(_log, logging.WARNING, "drain timed out", requests=self.num_live)
            now = asyncio.get_running_loop().time()
            for scope in self._scopes:
                scope.reschedule(now)
            await self._idle.wait()
