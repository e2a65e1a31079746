"""Logs: one event with key-values per line, JSON for programs and text for people."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

LogValue = str | int | float | bool | None


def log_event(logger: logging.Logger, level: int, event: str, **fields: LogValue) -> None:
    """Log an event.

    Args:
        logger: of the module that tells it.
        level: of `logging`.
        event: a short constant phrase.
        fields: what differs from one event to the next; those that are None are left out.
    """
    logger.log(level, event, extra={"fields": {k: v for k, v in fields.items() if v is not None}})


class JsonFormatter(logging.Formatter):
    """One JSON object per record on one line of ASCII, so that no value can forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its end."""
        line: dict[str, Any] = {
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """One line per record for people; only an exception adds lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines without their end."""
        words = [f"{_time(record).astimezone():%H:%M:%S}", _printable(record.getMessage())]
        if record.levelno >= logging.WARNING:
            words.insert(1, record.levelname.lower())
        words += [f"{key}={_quote(value)}" for key, value in _fields(record).items()]
        line = " ".join(words)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def set_up_logging(level: str, form: str, stream: TextIO = sys.stderr) -> None:
    """Send the logs of all modules to `stream`.

    Args:
        level: ``debug``, ``info``, ``warning`` or ``error``.
        form: ``json``, ``text``, or ``auto``: text on a terminal, JSON elsewhere.
        stream: where the lines go.
    """
    is_text = form == "text" or (form == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if is_text else JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _fields(record: logging.LogRecord) -> dict[str, LogValue]:
    return getattr(record, "fields", {})


def _quote(value: LogValue) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text and text else json.dumps(text)


def _printable(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)
