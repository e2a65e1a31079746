"""What `headrace serve` says while it runs, on stderr beside the logs of its programs."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.cli.serve.settings import Settings

_BAR_CELLS = 10
_MAX_DETAIL_CHARACTERS = 40
_CLEAR_LINE = "\r\x1b[K"
_QUIET_LEVELS = ("warning", "error")


class Narrator:
    """Tells a person at a terminal how far loading is, and writes into a file as the programs do.

    In a file the logs of the programs have each phase of loading, so that it is not told again.

    Args:
        settings: the form and the level of the logs.
    """

    def __init__(self, settings: Settings) -> None:
        is_terminal, form = sys.stderr.isatty(), settings.log_format
        self._is_json = form == "json" or (form != "text" and not is_terminal)
        self._has_reader = is_terminal and not self._is_json
        self._is_quiet = settings.log_level in _QUIET_LEVELS

    def show_progress(self, detail: str) -> None:
        """Draw the line that tells what is going on, such as ``converting weights, 40 %``."""
        if self._has_reader:
            phase, _, percentage = detail.partition(", ")
            # The cursor returns, so that a log line takes the place of this one.
            self._write(f"{_CLEAR_LINE}{progress_bar(phase, percentage)}\r")

    def clear_progress(self) -> None:
        """Take that line away."""
        if self._has_reader:
            self._write(_CLEAR_LINE)

    def tell(self, event: str, sentence: str) -> None:
        """Tell what happens: an event and its words to programs, the words to people.

        At the quiet levels of the logs people at a terminal are told, and no file.
        """
        if self._has_reader or not self._is_quiet:
            self._tell("info", event, sentence)

    def tell_error(self, event: str, sentence: str) -> None:
        """Tell what went wrong, at every level."""
        self._tell("error", event, sentence)

    def _tell(self, level: str, event: str, sentence: str) -> None:
        if self._is_json:
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": time, "level": level, "event": event, "detail": sentence}
            self._write(json.dumps(line) + "\n")
        else:
            self._write(f"headrace: {sentence}\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def progress_bar(phase: str, percentage: str) -> str:
    """Draw a phase with its percentage, such as ``40 %``; without one, only its words.

    It is shorter than a line of the log, which takes its place.
    """
    words = phase[:_MAX_DETAIL_CHARACTERS]
    match = re.fullmatch(r"(\d{1,3}) ?%", percentage)
    if match is None:
        return f"{words} …"
    full = min(int(match[1]), 100) * _BAR_CELLS // 100
    return f"{'█' * full}{'░' * (_BAR_CELLS - full)} {percentage} {words}"
