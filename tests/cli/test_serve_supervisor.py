"""What headrace serve makes of signals, and of how its programs end."""

import signal

import pytest

from headrace.cli.serve.children import ChildEndedError
from headrace.cli.serve.flags import Program
from headrace.cli.serve.supervisor import SAME_WISH_SECONDS, StopSignals, _how_it_ended


def test_signals_that_come_at_once_are_one_wish():
    """A program that sends its signal to the process and to its group wants answers to finish."""
    time = [100.0]
    signals = StopSignals(lambda: time[0])
    assert not signals.first.is_set()
    for _ in range(3):
        signals.take()
        assert (signals.first.is_set(), signals.second.is_set()) == (True, False)
        time[0] += SAME_WISH_SECONDS / 2
    signals.take()
    assert signals.second.is_set()


@pytest.mark.parametrize(
    ("returncode", "words"),
    [
        (3, "ended with status 3"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-(signal.SIGRTMIN + 1), f"was killed by signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_the_end_of_a_program_is_told_in_words(returncode, words):
    """A status and every signal have words, also those signals that have no name."""
    assert _how_it_ended(ChildEndedError(Program.SERVER, returncode)) == (
        f"The server {words}, so the gateway was stopped; start again with `headrace serve`."
    )
