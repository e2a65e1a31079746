"""The status of the backend, and waiting for its next change."""

from __future__ import annotations

import asyncio

from headrace_server.backends.interface import BackendState, BackendStatus


class StatusBoard:
    """Holds the current status."""

    def __init__(self) -> None:
        self.current = BackendStatus(BackendState.LOADING, "starting the engine")
        self._changed = asyncio.Event()

    def show(self, state: BackendState, detail: str) -> None:
        """Replace the status and wake those who wait for a change."""
        status = BackendStatus(state, detail)
        if status != self.current:
            self.current = status
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    async def wait_for_change(self, seen: BackendStatus) -> BackendStatus:
        """Wait until the status differs from `seen` and return it."""
        while self.current == seen:
            await self._changed.wait()
        return self.current
