"""What a run learns for its later rounds."""

from comparison.cell import Cell
from comparison.history import GUESS_START_SECONDS, History
from comparison.peer import Sizing
from comparison.plan import Step, Visit
from tests.benchmarks.comparison.peers_for_tests import make_peer

LIGHT = Step("grid", "light", 2.0, cell=Cell(4, 64, 64))
HEAVY = Step("grid", "heavy", 10.0, cell=Cell(16, 512, 64))
START = Step("start", "cached model", 1.0)
VISIT = Visit(make_peer("one"), Sizing(16, 576), (START, LIGHT, HEAVY))


def test_a_load_is_hopeless_where_a_lighter_one_came_to_nothing():
    """But not for another peer, and not the lighter one after the heavier."""
    history = History()
    history.note_problem("one", LIGHT)
    history.note_problem("two", HEAVY)
    assert history.is_hopeless("one", LIGHT)
    assert history.is_hopeless("one", HEAVY)
    assert not history.is_hopeless("one", START)
    assert not history.is_hopeless("two", LIGHT)


def test_long_and_hopeless_steps_are_not_repeated():
    """What is left keeps its order."""
    history = History()
    history.note_seconds("one", START, 1.0)
    history.note_seconds("one", LIGHT, 3.0)
    history.note_seconds("one", HEAVY, 60.0)
    [again] = history.worth_repeating([VISIT], available_seconds=600.0)
    assert again.steps == (START, LIGHT)
    history.note_problem("one", LIGHT)
    [again] = history.worth_repeating([VISIT], available_seconds=600.0)
    assert again.steps == (START,)


def test_where_time_is_short_the_shortest_steps_are_repeated():
    """And nothing where not even they fit."""
    history = History()
    history.note_start("one", 1.0)
    history.note_seconds("one", START, 1.0)
    history.note_seconds("one", LIGHT, 8.0)
    history.note_seconds("one", HEAVY, 15.0)
    steps = [
        [step for visit in history.worth_repeating([VISIT], seconds) for step in visit.steps]
        for seconds in (25.0, 24.0, 10.0, 9.0, 1.0)
    ]
    assert steps == [[START, LIGHT, HEAVY], [START, LIGHT], [START, LIGHT], [START], []]


def test_a_visit_with_nothing_to_repeat_is_left_out():
    """Its server need not start."""
    history = History()
    for step in VISIT.steps:
        history.note_problem("one", step)
    assert history.worth_repeating([VISIT], available_seconds=600.0) == []


def test_before_anything_is_measured_the_guesses_count():
    """The start of the server too."""
    assert History().seconds_of([VISIT]) == GUESS_START_SECONDS + 13.0


def test_what_was_measured_replaces_the_guess_and_sets_the_pace():
    """A peer that took twice as long as guessed will do so again."""
    history = History()
    history.note_start("one", 5.0)
    history.note_seconds("one", START, 2.0)
    history.note_seconds("one", LIGHT, 4.0)
    assert history.seconds_of([VISIT]) == 5.0 + 2.0 + 4.0 + 2 * 10.0
