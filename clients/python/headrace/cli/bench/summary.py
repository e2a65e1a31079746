"""The figures of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.cli.bench.recording import Recording, Run


@dataclass(frozen=True, slots=True)
class Distribution:
    """How a time is spread, in seconds; so many per cent of the values are at most a percentile."""

    mean: float
    p50: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of a run; a distribution is None where there is nothing to measure.

    Args:
        seconds: from the first request to the last answer.
        num_completed: requests with a whole answer.
        num_unfinished: under way when the run was stopped.
        failures: the others, by their reason.
        num_prompt_tokens: of the completed requests.
        num_output_tokens: that came, also of requests that were not completed.
        first_token: from sending to the first token (TTFT).
        per_output_token: from the first token of an answer to its last, for each of the tokens
            between (TPOT); one value for each answer.
        inter_token: between two messages with tokens of an answer.
        request: from sending to the end.
    """

    seconds: float
    num_completed: int
    num_unfinished: int
    failures: Mapping[str, int]
    num_prompt_tokens: int
    num_output_tokens: int
    first_token: Distribution | None
    per_output_token: Distribution | None
    inter_token: Distribution | None
    request: Distribution | None

    @property
    def output_tokens_per_second(self) -> float:
        """Of all streams together."""
        return self.num_output_tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def requests_per_second(self) -> float:
        """Completed requests."""
        return self.num_completed / self.seconds if self.seconds > 0 else 0.0


def summarize(run: Run) -> Summary:
    """Return the figures of a run, also of one that was stopped."""
    recordings = run.recordings
    completed = [recording for recording in recordings if recording.end_seconds is not None]
    failures = Counter(r.failure for r in recordings if r.failure is not None)
    return Summary(
        seconds=run.seconds,
        num_completed=len(completed),
        num_unfinished=len(recordings) - len(completed) - failures.total(),
        failures=failures,
        num_prompt_tokens=sum(recording.num_prompt_tokens for recording in completed),
        num_output_tokens=sum(recording.num_output_tokens for recording in recordings),
        first_token=distribution(
            [r.arrivals_seconds[0] - r.sent_seconds for r in recordings if r.arrivals_seconds]
        ),
        per_output_token=distribution([t for r in completed for t in _per_output_token(r)]),
        inter_token=distribution(
            [later - earlier for r in recordings for earlier, later in pairwise(r.arrivals_seconds)]
        ),
        request=distribution(
            [r.end_seconds - r.sent_seconds for r in completed if r.end_seconds is not None]
        ),
    )


def _per_output_token(recording: Recording) -> list[float]:
    """Return the one value of an answer; none where all of it came at once."""
    arrivals, num_intervals = recording.arrivals_seconds, recording.num_output_tokens - 1
    if len(arrivals) < 2:
        return []
    return [(arrivals[-1] - arrivals[0]) / num_intervals]


def distribution(values: Sequence[float]) -> Distribution | None:
    """Return how values are spread; None for no values."""
    if not values:
        return None
    ordered = sorted(values)

    def percentile(hundredths: int) -> float:
        return ordered[max(0, -(-len(ordered) * hundredths // 100) - 1)]

    return Distribution(fmean(ordered), percentile(50), percentile(90), percentile(99), ordered[-1])
