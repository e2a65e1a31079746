"""Log lines for programs and for people."""

import io
import json
import logging

import pytest

from headrace_server.telemetry import JsonFormatter, TextFormatter, log_event, set_up_logging

log = logging.getLogger("test.telemetry")
FORGED = 'x"\n{"event": "forged"}\x1b[31m\u2028'


def record_of(event, **fields):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    log.addHandler(handler)
    try:
        log_event(log, logging.WARNING, event, **fields)
    finally:
        log.removeHandler(handler)
    return records[0]


def test_an_event_is_one_object_per_line():
    """Event, level, time and fields are keys; what is None is left out."""
    line = JsonFormatter().format(record_of("call", code="OK", total_ms=1.5, reason=None))
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {"level": "warning", "event": "call", "code": "OK", "total_ms": 1.5}


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_no_value_can_forge_a_line(formatter):
    """Line ends and control characters in a value are escaped."""
    line = formatter.format(record_of("call", label=FORGED))
    assert line.isprintable()


def test_an_event_for_people_is_words_and_pairs():
    """The time comes first, then a level that matters, the event and its pairs."""
    line = TextFormatter().format(record_of("drain timed out", calls=3, why="too slow"))
    assert line[9:] == 'warning drain timed out calls=3 why="too slow"'


def test_an_exception_is_told_in_the_log():
    """The traceback is a field for programs and lines for people."""
    try:
        raise ValueError("secret")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("a", logging.ERROR, "", 1, "failed", (), info)
    assert "secret" in json.loads(JsonFormatter().format(record))["exception"]
    assert "\n" not in JsonFormatter().format(record)
    assert "secret" in TextFormatter().format(record)


@pytest.mark.parametrize(("form", "is_json"), [("auto", True), ("json", True), ("text", False)])
def test_the_form_suits_the_reader(form, is_json):
    """Without a terminal auto means JSON."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    try:
        set_up_logging("info", form, stream)
        log_event(log, logging.INFO, "hello")
        log_event(log, logging.DEBUG, "unheard")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    assert stream.getvalue().startswith("{") == is_json
    assert stream.getvalue().count("\n") == 1
