"""The figures of a run, from requests whose times are known."""

import pytest

from headrace.cli.bench.recording import Run
from headrace.cli.bench.summary import Distribution, distribution, summarize


class Clock:
    """A clock that is set by hand."""

    seconds = 0.0

    def __call__(self):
        return self.seconds


def record(run, clock, sent, arrivals, end=None, failure=None):
    """Record a request whose messages come at some times, each with a number of tokens."""
    clock.seconds = sent
    recording = run.send(10)
    for seconds, count in arrivals:
        recording.arrivals_seconds.append(seconds)
        recording.num_output_tokens += count
    recording.end_seconds, recording.failure = end, failure


@pytest.fixture
def clock():
    return Clock()


def test_the_times_of_one_answer(clock):
    """TTFT, TPOT, the intervals and the whole are those of the definitions."""
    run = Run(clock)
    record(run, clock, 100.0, [(101.0, 1), (101.5, 2), (103.0, 2)], end=104.0)
    clock.seconds = 104.0
    run.stop()
    summary = summarize(run)
    assert summary.first_token == Distribution(1, 1, 1, 1, 1)
    # Two seconds for the four tokens after the first.
    assert summary.per_output_token == Distribution(0.5, 0.5, 0.5, 0.5, 0.5)
    assert summary.inter_token == Distribution(1.0, 0.5, 1.5, 1.5, 1.5)
    assert summary.request == Distribution(4, 4, 4, 4, 4)
    assert (summary.seconds, summary.output_tokens_per_second) == (4, 5 / 4)
    assert summary.requests_per_second == 1 / 4


def test_what_is_not_complete_is_counted_apart(clock):
    """Tokens count as they came; failed and unfinished requests are no completed ones."""
    run = Run(clock)
    record(run, clock, 0.0, [(1.0, 1), (2.0, 1)], end=2.0)
    record(run, clock, 0.0, [], failure="busy")
    record(run, clock, 0.0, [(1.0, 1)], failure="gone")
    record(run, clock, 0.0, [], failure="busy")
    record(run, clock, 1.0, [(2.0, 3)])
    assert run.num_over == 4
    clock.seconds = 5.0
    summary = summarize(run)
    assert (summary.num_completed, summary.num_unfinished) == (1, 1)
    assert summary.failures == {"busy": 2, "gone": 1}
    assert (summary.num_prompt_tokens, summary.num_output_tokens) == (10, 6)
    assert summary.seconds == 5.0


def test_the_clock_stops_once(clock):
    """The time is from the first request to the first stop."""
    run = Run(clock)
    clock.seconds = 7.0
    assert run.seconds == 0.0
    run.send(1)
    clock.seconds = 9.0
    run.stop()
    clock.seconds = 11.0
    run.stop()
    assert run.seconds == 2.0


def test_one_token_has_no_pace(clock):
    """An answer that came at once has neither TPOT nor intervals."""
    run = Run(clock)
    record(run, clock, 0.0, [(1.0, 5)], end=1.0)
    summary = summarize(run)
    assert summary.per_output_token is None
    assert summary.inter_token is None


def test_a_run_without_requests_has_no_figures(clock):
    """Nothing is divided by nothing."""
    summary = summarize(Run(clock))
    assert summary.first_token is None
    assert (summary.output_tokens_per_second, summary.requests_per_second) == (0, 0)


def test_percentiles_are_values_that_were_seen():
    """Of 100 values the 99th is the 99 % percentile, whatever their order."""
    values = [float(value) for value in range(100, 0, -1)]
    assert distribution(values) == Distribution(50.5, 50, 90, 99, 100)
    assert distribution([3.0]) == Distribution(3, 3, 3, 3, 3)
    assert distribution([]) is None
