"""What a part is given to measure with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from comparison.load import run_load
from comparison.memory import MemoryWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comparison.cell import Cell
    from comparison.load import Asker, Load
    from comparison.prompts import Prompts

# Few tokens, for as many streams as follow: the first products of a shape are slow everywhere.
_WARM_UP_PROMPT_TOKENS, _WARM_UP_OUTPUT_TOKENS = 16, 4


@dataclass(frozen=True, slots=True)
class Context:
    """A peer that answers, in one round.

    Args:
        label: of this visit; the prompts of two labels have nothing in common.
        pids: the processes whose memory counts.
    """

    asker: Asker
    prompts: Prompts
    label: str
    pids: Sequence[int]

    def texts(self, case: str, num_texts: int, num_tokens: int) -> list[str]:
        """Prompts of this round that nobody else sends to this server."""
        return [
            self.prompts.text(f"{self.label}/{case}/{num_tokens}/{index}", num_tokens)
            for index in range(num_texts)
        ]

    async def warm_up(self, case: str, num_streams: int) -> None:
        """Send a short request on every stream."""
        texts = self.texts(f"warm up {case}", num_streams, _WARM_UP_PROMPT_TOKENS)
        await run_load(
            self.asker,
            [[text] for text in texts],
            _WARM_UP_PROMPT_TOKENS,
            _WARM_UP_OUTPUT_TOKENS,
        )

    async def run(self, case: str, cell: Cell) -> tuple[Load, int]:
        """Run a load.

        Returns:
            its answers and the peak of the memory meanwhile.
        """
        texts = self.texts(f"{case}/{cell.num_streams}", cell.num_requests, cell.num_prompt_tokens)
        count = cell.num_requests_per_stream
        streams = [texts[index : index + count] for index in range(0, len(texts), count)]
        with MemoryWatch(self.pids) as memory:
            load = await run_load(
                self.asker, streams, cell.num_prompt_tokens, cell.num_output_tokens
            )
        return load, memory.peak_bytes
