"""Whether a request is taken, decided at once, and the ledger of the sequences that were."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from headrace_server.errors import OverloadedError

# How far back the rate of ended requests looks, and the range of the retry times made of it.
_RATE_WINDOW_SECONDS = 60.0
_MIN_RETRY_SECONDS = 0.5
_MAX_RETRY_SECONDS = 30.0
_UNKNOWN_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """How long the queue may get.

    Args:
        max_queued_requests: live sequences beyond those that fit a step; a request has one for
            each candidate. A sequence is live until the engine has acknowledged its end, also
            when its caller is gone.
        max_queued_tokens: prompt tokens of all requests that have not started; a prompt
            alone in the queue may be larger.
    """

    max_queued_requests: int = 256
    max_queued_tokens: int = 262_144


class Admission:
    """Counts sequences from being taken to their end. Times are of any monotonic clock, in seconds.

    Args:
        max_num_sequences: sequences that fit a step.
    """

    def __init__(self, limits: AdmissionLimits, max_num_sequences: int) -> None:
        self._limits = limits
        self._max_num_sequences = max_num_sequences
        self._num_queued = 0
        self._num_queued_tokens = 0
        self._close_times: deque[float] = deque(maxlen=256)
        self.num_opened = 0
        self.num_closed = 0

    def open(self, num_candidates: int, num_prompt_tokens: int, now: float) -> None:
        """Take a request as a whole. One that is alone is taken however many candidates it has.

        Raises:
            OverloadedError: the queue is full.
        """
        num_live = self.num_opened - self.num_closed
        max_num_live = self._max_num_sequences + self._limits.max_queued_requests
        num_tokens = self._num_queued_tokens + num_prompt_tokens
        too_many_tokens = self._num_queued > 0 and num_tokens > self._limits.max_queued_tokens
        too_many_sequences = num_live > 0 and num_live + num_candidates > max_num_live
        if too_many_sequences or too_many_tokens:
            seconds = self._retry_after_seconds(now)
            raise OverloadedError(
                f"The queue is full (requests: {self._num_queued}, prompt tokens: "
                f"{self._num_queued_tokens}); try again in {seconds:.1f} s.",
                retry_after_seconds=seconds,
            )
        self.num_opened += num_candidates
        self._num_queued += num_candidates
        self._num_queued_tokens += num_prompt_tokens

    def leave_queue(self, num_prompt_tokens: int) -> None:
        """Note that a sequence waits no longer: it has started, or ended before that.

        Args:
            num_prompt_tokens: of its request, for the first of the request's sequences; else 0.
        """
        self._num_queued -= 1
        self._num_queued_tokens -= num_prompt_tokens

    def close(self, now: float) -> None:
        """Note the end of a sequence that has left the queue."""
        self.num_closed += 1
        self._close_times.append(now)

    def _retry_after_seconds(self, now: float) -> float:
        """How long those in the queue will take, at the rate at which requests end now."""
        while self._close_times and self._close_times[0] < now - _RATE_WINDOW_SECONDS:
            self._close_times.popleft()
        if not self._close_times:
            return _UNKNOWN_RETRY_SECONDS
        seconds_per_sequence = (now - self._close_times[0]) / len(self._close_times)
        seconds = self._num_queued * seconds_per_sequence
        return min(max(seconds, _MIN_RETRY_SECONDS), _MAX_RETRY_SECONDS)
