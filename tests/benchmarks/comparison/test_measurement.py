"""Rounds come to rows."""

import pytest

from comparison.measurement import Measurement, percentile, summarize


def test_a_row_holds_medians_and_spreads_of_its_rounds():
    """In the order in which the rows were first measured."""
    rows = summarize(
        [
            Measurement("grid", "a", "one", 0, {"x": 1.0}),
            Measurement("grid", "a", "two", 0, {"x": 5.0}),
            Measurement("grid", "a", "one", 1, {"x": 9.0}),
            Measurement("grid", "a", "one", 2, {"x": 2.0}),
        ]
    )
    assert [(row.peer, row.num_rounds, row.figures) for row in rows] == [
        ("one", 3, {"x": 2.0}),
        ("two", 1, {"x": 5.0}),
    ]
    assert rows[0].spreads == {"x": (1.0, 9.0)}


def test_a_problem_in_one_round_is_the_row():
    """Medians of the other rounds would hide it."""
    [row] = summarize(
        [
            Measurement("grid", "a", "one", 0, {"x": 1.0}),
            Measurement("grid", "a", "one", 1, problem="not finished in 90 s"),
        ]
    )
    assert (row.figures, row.problem) == ({}, "not finished in 90 s")


@pytest.mark.parametrize(
    ("fraction", "expected"), [(0.0, 1.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0)]
)
def test_a_percentile_is_one_of_the_values(fraction, expected):
    """By nearest rank."""
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, fraction) == expected


def test_the_percentile_of_nothing_is_zero():
    """An answer of one piece has no gaps."""
    assert percentile([], 0.99) == 0.0
