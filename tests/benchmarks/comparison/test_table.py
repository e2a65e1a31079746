"""The tables."""

from comparison.measurement import Measurement, summarize
from comparison.metric import TOKENS_PER_SECOND
from comparison.table import best_of, render


def grid_row(peer, rate, case="64 tokens, 1 stream"):
    figures = {
        "tokens_per_second": rate,
        "ttft_seconds": 1 / rate,
        "tpot_seconds": 1 / rate,
        "gap_p99_seconds": 1 / rate,
        "peak_memory_bytes": 2.0**30,
    }
    return Measurement("grid", case, peer, 0, figures)


def test_ratios_are_against_the_best_rival_of_the_same_load():
    """Headrace is no rival of its other variants."""
    rows = summarize(
        [
            grid_row("slow", 10.0),
            grid_row("fast", 20.0),
            grid_row("Headrace", 50.0),
            grid_row("fast", 5.0, case="64 tokens, 4 streams"),
        ]
    )
    assert best_of(rows[:3], {"slow", "fast"}, TOKENS_PER_SECOND) == 20.0
    lines = render(rows, {"slow", "fast"}).splitlines()[2:]
    assert [line.split()[-10:-8] for line in lines[:3]] == [
        ["0.50", "100"],
        ["1.00", "50"],
        ["2.50", "20"],
    ]
    assert "5.0  1.00" in lines[3]


def test_without_rivals_there_are_figures_but_no_ratios():
    """Nothing is compared with itself."""
    [_, titles, line] = render(summarize([grid_row("Headrace", 50.0)]), set()).splitlines()
    assert titles.split()[-1] == "rounds"
    assert line.split()[-6:] == ["50.0", "20", "20.0", "20", "1,024", "1"]


def test_a_peer_that_did_not_finish_is_shown_as_such():
    """It is neither left out nor an error."""
    problem = Measurement("grid", "64 tokens, 1 stream", "slow", 0, problem="not finished in 90 s")
    text = render(summarize([problem, grid_row("fast", 20.0)]), {"slow", "fast"})
    assert "slow  not finished in 90 s" in text


def test_the_fronts_are_shown_in_percent_of_their_engine():
    """Each variant has its own."""
    rows = [
        Measurement("serving", variant, front, 0, {"tokens_per_second": rate})
        for variant, front, rate in (
            ("Headrace fp16", "gRPC", 95.0),
            ("Headrace fp16", "engine alone", 100.0),
            ("Headrace q4", "gRPC", 150.0),
        )
    ]
    lines = render(summarize(rows), set()).splitlines()[2:]
    assert [line.split()[-3:] for line in lines] == [
        ["95.0", "95.0", "1"],
        ["100.0", "100.0", "1"],
        ["gRPC", "150.0", "1"],
    ]
