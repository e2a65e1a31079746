"""A conversation as it is sent to the model: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.options import ChatMessage


class Conversation:
    """The turns so far.

    Args:
        system: how the model is told to behave; empty for nothing.
    """

    def __init__(self, system: str) -> None:
        self.system = system
        self._turns: list[ChatMessage] = []

    def messages(self, question: str) -> list[ChatMessage]:
        """Return what is sent to have `question` answered."""
        system: list[ChatMessage] = (
            [{"role": "system", "content": self.system}] if self.system else []
        )
        return [*system, *self._turns, {"role": "user", "content": question}]

    def add(self, question: str, answer: str) -> None:
        """Keep a turn, so that what follows is understood."""
        self._turns += [
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
        ]

    def forget(self) -> None:
        """Drop the turns; the system message stays."""
        self._turns.clear()
