"""When the text of one answer came."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


class WrongAnswerError(Exception):
    """A server answered, but not what it was asked for."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; times are those of one monotonic clock.

    Args:
        begin_seconds: when the request was sent.
        piece_seconds: when each piece of text came that was not empty.
        end_seconds: when the response ended.
        num_prompt_tokens: as the server counted them.
        num_output_tokens: as the server counted them.
    """

    begin_seconds: float
    piece_seconds: tuple[float, ...]
    end_seconds: float
    num_prompt_tokens: int
    num_output_tokens: int

    @property
    def ttft_seconds(self) -> float:
        """Time to the first text."""
        return self.piece_seconds[0] - self.begin_seconds

    @property
    def tpot_seconds(self) -> float:
        """Time per output token after the first; 0 where there is only one."""
        latency_seconds = self.end_seconds - self.begin_seconds
        return (latency_seconds - self.ttft_seconds) / max(self.num_output_tokens - 1, 1)

    @property
    def gaps_seconds(self) -> tuple[float, ...]:
        """Times between pieces of text."""
        return tuple(late - early for early, late in pairwise(self.piece_seconds))

    def check(self, num_prompt_tokens: int, num_output_tokens: int) -> None:
        """Raise WrongAnswerError unless this is the work that everyone does."""
        if not self.piece_seconds:
            raise WrongAnswerError("an answer had no text")
        if self.num_prompt_tokens != num_prompt_tokens:
            raise WrongAnswerError(
                f"a prompt of {num_prompt_tokens} tokens was counted as {self.num_prompt_tokens}"
            )
        if self.num_output_tokens != num_output_tokens:
            raise WrongAnswerError(
                f"{num_output_tokens} tokens were asked for and {self.num_output_tokens} came"
            )
