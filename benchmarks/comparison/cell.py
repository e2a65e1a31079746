"""One load: how many streams ask, with prompts and answers of which length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Few streams make so few tokens that one request of each would measure noise.
_REQUESTS_PER_STREAM = {1: 3, 4: 2}


@dataclass(frozen=True, slots=True)
class Cell:
    """A load.

    Args:
        num_streams: requests that run at the same time.
        num_prompt_tokens: tokens of each prompt.
        num_output_tokens: tokens of each answer.
        num_requests_per_stream: each stream sends its next request when the last has ended.
    """

    num_streams: int
    num_prompt_tokens: int
    num_output_tokens: int
    num_requests_per_stream: int = 1

    @property
    def name(self) -> str:
        """The cell in words."""
        streams = "1 stream" if self.num_streams == 1 else f"{self.num_streams} streams"
        return f"{self.num_prompt_tokens} tokens, {streams}"

    @property
    def num_requests(self) -> int:
        """Requests of all streams."""
        return self.num_streams * self.num_requests_per_stream

    @property
    def total_output_tokens(self) -> int:
        """Output tokens of all requests."""
        return self.num_requests * self.num_output_tokens

    def is_at_least(self, other: Cell) -> bool:
        """Whether this load is the other or a heavier one."""
        return (
            self.num_streams >= other.num_streams
            and self.num_prompt_tokens >= other.num_prompt_tokens
            and self.num_output_tokens >= other.num_output_tokens
        )


def grid(
    streams: Iterable[int], prompts: Iterable[int], num_output_tokens: int
) -> tuple[Cell, ...]:
    """Every number of streams with every length of prompt, the light loads first."""
    cells = [
        Cell(num_streams, num_tokens, num_output_tokens, _REQUESTS_PER_STREAM.get(num_streams, 1))
        for num_tokens in prompts
        for num_streams in streams
    ]
    return tuple(sorted(cells, key=lambda cell: (cell.num_prompt_tokens, cell.num_streams)))
