"""Finds the stop sequence that is complete first in a text that comes in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a piece of text has settled.

    Args:
        text: what is certain to belong to the output, after all text before it.
        stop_sequence: the stop sequence that is complete; nothing comes after it.
    """

    text: str
    stop_sequence: str | None


class StopMatcher:
    """Searches the pieces of one text for stop sequences.

    The one that ends first wins; of several that end together, the first in the
    list. Only the longest end of the text that is the beginning of a stop sequence
    is held back. Each stop sequence has a Knuth-Morris-Pratt automaton, so that the
    cost of a character depends neither on the text nor on the lengths of the stops.

    Args:
        stop_sequences: not empty each.
        include_stop: whether the output keeps the stop sequence.
    """

    def __init__(self, stop_sequences: Sequence[str], *, include_stop: bool) -> None:
        self._automata = [_Automaton(stop) for stop in stop_sequences]
        self._include_stop = include_stop
        self._held = ""

    def feed(self, piece: str, *, may_stop: bool = True) -> Scanned:
        """Add a piece of the text.

        Args:
            piece: the next characters.
            may_stop: False passes over the stop sequences that end in this piece.
        """
        if not self._automata:
            return Scanned(piece, None)
        text = self._held + piece
        for end in range(len(self._held) + 1, len(text) + 1):
            stop = self._advance(text[end - 1])
            if stop is not None and may_stop:
                self._held = ""
                return Scanned(text[: end if self._include_stop else end - len(stop)], stop)
        num_held = max(automaton.num_matched for automaton in self._automata)
        self._held = text[len(text) - num_held :]
        return Scanned(text[: len(text) - num_held], None)

    def flush(self) -> str:
        """End the text and return what was held back."""
        held, self._held = self._held, ""
        return held

    def _advance(self, character: str) -> str | None:
        complete = [a.stop for a in self._automata if a.advance(character)]
        return complete[0] if complete else None


class _Automaton:
    """Knuth-Morris-Pratt search for one stop sequence."""

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self.num_matched = 0  # characters of the longest proper prefix that ends the text
        self._borders = _borders(stop)

    def advance(self, character: str) -> bool:
        """Take the next character; True when it completes the stop sequence."""
        matched = self.num_matched
        while matched and self.stop[matched] != character:
            matched = self._borders[matched]
        if self.stop[matched] == character:
            matched += 1
        complete = matched == len(self.stop)
        self.num_matched = self._borders[matched] if complete else matched
        return complete


def _borders(stop: str) -> list[int]:
    """For each length of a prefix, that of the longest proper prefix which also ends it."""
    borders = [0, 0]
    for character in stop[1:]:
        border = borders[-1]
        while border and stop[border] != character:
            border = borders[border]
        borders.append(border + 1 if stop[border] == character else border)
    return borders
