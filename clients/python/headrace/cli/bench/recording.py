"""What is seen of the requests of a run, as it comes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class Recording:
    """One request, of which more is known with each message.

    Args:
        num_prompt_tokens: of its prompt.
        sent_seconds: when it was sent.
        arrivals_seconds: when each message with tokens came.
        num_output_tokens: that have come.
        end_seconds: when its answer was complete; None before, and where it failed.
        failure: why there is no whole answer; None where there is one, or may be yet.
    """

    num_prompt_tokens: int
    sent_seconds: float
    arrivals_seconds: list[float] = field(default_factory=list)
    num_output_tokens: int = 0
    end_seconds: float | None = None
    failure: str | None = None


class Run:
    """The requests of a run and its time.

    Args:
        now: the time, in seconds.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.now = now
        self.recordings: list[Recording] = []
        self._begin_seconds: float | None = None
        self._end_seconds: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has taken since the first request."""
        if self._begin_seconds is None:
            return 0.0
        end = self.now() if self._end_seconds is None else self._end_seconds
        return end - self._begin_seconds

    @property
    def num_over(self) -> int:
        """The number of requests that have an answer or have failed."""
        return sum(
            recording.end_seconds is not None or recording.failure is not None
            for recording in self.recordings
        )

    def send(self, num_prompt_tokens: int) -> Recording:
        """Begin with a request that is sent now."""
        recording = Recording(num_prompt_tokens, self.now())
        if self._begin_seconds is None:
            self._begin_seconds = recording.sent_seconds
        self.recordings.append(recording)
        return recording

    def stop(self) -> None:
        """Stop the clock; the first time counts."""
        if self._end_seconds is None:
            self._end_seconds = self.now()
