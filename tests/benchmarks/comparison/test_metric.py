"""What better means."""

from comparison.metric import TOKENS_PER_SECOND, TTFT


def test_a_ratio_above_one_is_better_whatever_the_direction():
    """Twice the throughput and half the time are both 2."""
    assert TOKENS_PER_SECOND.ratio(200.0, 100.0) == 2.0
    assert TTFT.ratio(0.1, 0.2) == 2.0


def test_the_best_is_the_highest_throughput_and_the_lowest_time():
    """Each metric knows its direction."""
    assert TOKENS_PER_SECOND.best([1.0, 3.0, 2.0]) == 3.0
    assert TTFT.best([1.0, 3.0, 2.0]) == 1.0


def test_a_figure_is_shown_in_the_unit_of_the_title():
    """Seconds are measured, milliseconds are shown."""
    assert TTFT.title == "TTFT ms"
    assert TTFT.show(1.2345) == "1,234"
