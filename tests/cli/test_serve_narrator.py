"""What headrace serve writes to stderr, by what that is and by the form of the logs."""

import json

import pytest

from headrace.cli.serve.narrator import Narrator, progress_bar
from headrace.cli.serve.settings import Settings


@pytest.mark.parametrize(
    ("phase", "percentage", "shown"),
    [
        ("reading weights", "", "reading weights …"),
        ("reading weights", "0 %", "░░░░░░░░░░ 0 % reading weights"),
        ("reading weights", "50 %", "█████░░░░░ 50 % reading weights"),
        ("reading weights", "100 %", "██████████ 100 % reading weights"),
        ("reading weights", "half", "reading weights …"),
        ("x" * 100, "", "x" * 40 + " …"),
    ],
)
def test_progress_is_a_bar_where_there_is_a_percentage(phase, percentage, shown):
    """A phase with a percentage is a bar; one without is its words; none fills the line."""
    assert progress_bar(phase, percentage) == shown


def written(capsys, monkeypatch, settings, *, is_terminal):
    """What comes of progress, of news and of an error."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    narrator = Narrator(settings)
    narrator.show_progress("loading, 40 %")
    narrator.clear_progress()
    narrator.tell("stopping", "Stopping.")
    narrator.tell_error("ended", "It ended.")
    return capsys.readouterr().err


SENTENCES = "headrace: Stopping.\nheadrace: It ended.\n"
BAR = "\r\x1b[K████░░░░░░ 40 % loading\r\r\x1b[K"


@pytest.mark.parametrize(
    ("settings", "is_terminal", "expected"),
    [
        (Settings(), True, BAR + SENTENCES),
        (Settings(log_level="error"), True, BAR + SENTENCES),
        (Settings(log_format="text"), True, BAR + SENTENCES),
        (Settings(log_format="text"), False, SENTENCES),
        (Settings(log_format="text", log_level="warning"), False, "headrace: It ended.\n"),
    ],
)
def test_people_get_sentences(capsys, monkeypatch, settings, is_terminal, expected):
    """A terminal has the bar and all sentences; a file of text those of its level."""
    assert written(capsys, monkeypatch, settings, is_terminal=is_terminal) == expected


@pytest.mark.parametrize(
    ("settings", "is_terminal"),
    [
        (Settings(), False),
        (Settings(log_format="json"), False),
        (Settings(log_format="json"), True),
        (Settings(log_level="warning"), False),
    ],
)
def test_programs_get_lines_of_the_log(capsys, monkeypatch, settings, is_terminal):
    """In JSON there is nothing but JSON, with the keys of the programs' own lines."""
    text = written(capsys, monkeypatch, settings, is_terminal=is_terminal)
    lines = [json.loads(line) for line in text.splitlines()]
    expected = [("info", "stopping", "Stopping."), ("error", "ended", "It ended.")]
    if settings.log_level == "warning":
        del expected[0]
    assert [(line["level"], line["event"], line["detail"]) for line in lines] == expected
    assert [list(line)[:3] for line in lines] == [["time", "level", "event"]] * len(lines)
