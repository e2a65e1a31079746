"""The log."""

import io
import json
import logging

import pytest

from headrace_gateway.telemetry import JsonFormatter, TextFormatter, log_event, set_up_logging


@pytest.fixture
def record():
    """A record with a value that tries to be a line of its own."""
    records = []
    logger = logging.getLogger("tests.telemetry")
    logger.setLevel(logging.INFO)
    handler = logging.Handler()
    handler.emit = records.append
    logger.addHandler(handler)
    log_event(logger, logging.INFO, "request", path='/a"\n{"event": "forged"}', status=404, x=None)
    logger.removeHandler(handler)
    return records[0]


def test_a_json_line_cannot_be_forged(record):
    """Every record is one line of JSON with its fields, whatever they hold."""
    line = JsonFormatter().format(record)
    assert "\n" not in line
    fields = json.loads(line)
    assert fields.pop("time").endswith("+00:00")
    assert fields == {
        "level": "info",
        "event": "request",
        "path": '/a"\n{"event": "forged"}',
        "status": 404,
    }


def test_a_text_line_cannot_be_forged(record):
    """The form for people is one line as well."""
    line = TextFormatter().format(record)
    assert "\n" not in line
    assert line.endswith(' request path="/a\\"\\n{\\"event\\": \\"forged\\"}" status=404')


def test_an_event_of_a_library_cannot_forge_a_line():
    """What others write into the log is one line too."""
    message = 'odd "\n{"event": "forged"}\x1b[31m'
    record = logging.LogRecord("aiohttp", logging.WARNING, "", 1, message, (), None)
    assert JsonFormatter().format(record).isprintable()
    assert TextFormatter().format(record).isprintable()


def test_the_form_follows_the_stream():
    """Text is for terminals; a file or a pipe gets JSON."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        for is_terminal, formatter in ((True, TextFormatter), (False, JsonFormatter)):
            stream = io.StringIO()
            stream.isatty = lambda is_terminal=is_terminal: is_terminal
            set_up_logging("info", "auto", stream)
            assert type(root.handlers[0].formatter) is formatter
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
