"""Whether requests can be served now, and if not, why: the one source of health and refusals."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from headrace_server.backends.interface import BackendState
from headrace_server.errors import EngineUnavailableError

if TYPE_CHECKING:
    from headrace_server.backends.interface import Backend
    from headrace_server.text.model import TextModel
    from headrace_server.text.pipeline import TextPipeline

# Loading takes seconds to minutes; a caller that asks each second is told at once and costs little.
LOADING_RETRY_SECONDS: Final = 1.0


class Availability:
    """Follows the backend, loads the text model once the engine is ready, and knows of the drain.

    Args:
        backend: open.
        pipeline: its model is loaded here.
    """

    def __init__(self, backend: Backend, pipeline: TextPipeline) -> None:
        self._backend = backend
        self._pipeline = pipeline
        self._draining = False
        self._changed = asyncio.Event()
        self._ready_time: datetime | None = None

    @property
    def is_serving(self) -> bool:
        """Whether a request would be taken now."""
        return (
            not self._draining
            and self._pipeline.model is not None
            and self._backend.status.state is BackendState.READY
        )

    @property
    def is_draining(self) -> bool:
        """Whether the server is about to stop."""
        return self._draining

    @property
    def ready_time(self) -> datetime:
        """When the model became ready for the first time."""
        assert self._ready_time is not None
        return self._ready_time

    def require_model(self) -> TextModel:
        """Return the loaded model.

        Raises:
            EngineUnavailableError: it is still loading.
        """
        model = self._pipeline.model
        if model is None:
            status = self._backend.status
            is_loaded = status.state is BackendState.READY
            phase = "reading the tokenizer" if is_loaded else status.detail
            raise EngineUnavailableError(
                f"The model is not ready yet ({phase}); try again.",
                LOADING_RETRY_SECONDS,
            )
        return model

    def drain(self) -> None:
        """Serve no new requests from now on."""
        self._draining = True
        self._notify()

    async def follow(self) -> None:
        """Keep up with the backend; runs until cancelled.

        Raises:
            Exception: what loading the text model raises.
        """
        status = self._backend.status
        while True:
            if status.state is BackendState.READY and self._pipeline.model is None:
                assert self._backend.model is not None
                await self._pipeline.load_model(self._backend.model)
                self._ready_time = datetime.now(UTC)
            self._notify()
            status = await self._backend.wait_for_status_change(status)

    async def wait_for_change(self, *, seen: bool) -> bool:
        """Wait until `is_serving` differs from `seen`, or a drain begins, and return it."""
        while self.is_serving == seen and not self._draining:
            await self._changed.wait()
        return self.is_serving

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
