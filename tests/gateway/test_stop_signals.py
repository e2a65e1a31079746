"""Which signal says not to wait."""

import signal

import pytest

from headrace_gateway.stop_signals import SAME_WISH_SECONDS, StopSignals


@pytest.fixture
def clock():
    """A clock that stands still until it is set."""
    return [100.0]


@pytest.fixture
def signals(clock):
    return StopSignals(lambda: clock[0])


def test_a_signal_that_comes_twice_at_once_is_one_wish(signals, clock):
    """A program that sends its signal to the process and to its group wants a drain."""
    assert not signals.take(signal.SIGTERM)
    clock[0] += SAME_WISH_SECONDS
    assert not signals.take(signal.SIGTERM)


def test_a_second_signal_says_not_to_wait(signals, clock):
    """The dead time is that of the first one, however many have come in it."""
    for _ in range(3):
        assert not signals.take(signal.SIGTERM)
        clock[0] += SAME_WISH_SECONDS / 2
    assert signals.take(signal.SIGTERM)


def test_another_signal_is_no_second_one(signals, clock):
    """What `headrace serve` sends and what a service manager sends is one wish at any time."""
    assert not signals.take(signal.SIGTERM)
    clock[0] += 2 * SAME_WISH_SECONDS
    assert not signals.take(signal.SIGUSR1)
