"""The time limits that a request brings along."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_server.errors import QueueTimeoutError

if TYPE_CHECKING:
    from headrace_server.text.generation import GenerationRequest


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Times of the event loop's clock, in seconds.

    Args:
        arrival: when the request came.
        queue: until when the first step must begin; None has no limit.
        end: when the answer ends where it is; None has no limit.
    """

    arrival: float
    queue: float | None
    end: float | None

    @classmethod
    def of(cls, request: GenerationRequest, arrival: float) -> Deadlines:
        """Turn the durations of a request into times."""
        queue, end = request.max_queue_seconds, request.max_seconds
        return cls(
            arrival=arrival,
            queue=None if queue is None else arrival + queue,
            end=None if end is None else arrival + end,
        )

    @property
    def start(self) -> float | None:
        """Until when a request may wait for its first step, for either reason."""
        return min((time for time in (self.queue, self.end) if time is not None), default=None)

    def expire_start(self) -> None:
        """Act on `start` being past: nothing where the answer just ends there.

        Raises:
            QueueTimeoutError: the request has waited too long.
        """
        if self.queue is not None and (self.end is None or self.queue < self.end):
            message = (
                "The request did not start within its max_queue_duration; try again later or "
                "allow more time."
            )
            raise QueueTimeoutError(message)
