"""How long a server takes from its start to its first words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from comparison.metric import Metric

if TYPE_CHECKING:
    from comparison.parts.context import Context
    from comparison.server import RunningServer

READY: Final = Metric("ready_seconds", "ready s", 1.0, 2, is_better_high=False)
FIRST_TEXT: Final = Metric("first_text_seconds", "first text s", 1.0, 2, is_better_high=False)

METRICS: Final = (READY, FIRST_TEXT)

_NUM_PROMPT_TOKENS, _NUM_OUTPUT_TOKENS = 8, 4


async def measure_start(context: Context, server: RunningServer) -> dict[str, float]:
    """Time from exec until the server is ready, and until its first answer begins.

    To be called at once after the start: before any other request.
    """
    [text] = context.texts("start", 1, _NUM_PROMPT_TOKENS)
    answer = await context.asker.ask(text, _NUM_OUTPUT_TOKENS)
    answer.check(_NUM_PROMPT_TOKENS, _NUM_OUTPUT_TOKENS)
    return {
        READY.key: server.start_seconds,
        FIRST_TEXT.key: answer.piece_seconds[0] - server.exec_seconds,
    }
