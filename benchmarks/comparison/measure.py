"""Measures one step on a peer that answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from comparison import metric, part
from comparison.parts import serving_cost
from comparison.parts.grid import measure_cell
from comparison.parts.interference import measure_interference
from comparison.parts.repeated_prompt import measure_repeated_prompt
from comparison.parts.start import measure_start
from comparison.parts.transport import measure_transport
from comparison.plan import NUM_REPEATED_PROMPTS, REPEATED_PROMPT_TOKENS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from comparison.parts.context import Context
    from comparison.peer import Peer
    from comparison.plan import Step
    from comparison.server import RunningServer


@dataclass(frozen=True, slots=True)
class Finding:
    """The figures of one row."""

    case: str
    peer: str
    figures: Mapping[str, float]

    def __str__(self) -> str:
        name, value = next(iter(self.figures.items()))
        return f"{value:,.1f} {name.replace('_', ' ')}" if value >= 100 else f"{value:.3g} {name}"


async def measure_step(
    step: Step, peer: Peer, server: RunningServer, context: Context
) -> list[Finding]:
    """Measure what the step says, on a server that runs.

    Raises:
        RequestFailedError, WrongAnswerError: it was not what all peers do.
    """
    if step.part == part.SERVING:
        rates = await serving_cost.measure_fronts(context, server)
        return [
            Finding(peer.name, front, {metric.TOKENS_PER_SECOND.key: rate})
            for front, rate in rates.items()
        ]
    if step.part == part.TRANSPORT:
        rows = await measure_transport(server, peer, step.num_streams)
        return [Finding(step.case, front, figures) for front, figures in rows.items()]
    return [Finding(step.case, peer.name, await _figures(step, server, context))]


async def _figures(step: Step, server: RunningServer, context: Context) -> dict[str, float]:
    if step.part == part.START:
        return await measure_start(context, server)
    if step.part == part.REPEAT:
        return await measure_repeated_prompt(context, NUM_REPEATED_PROMPTS, REPEATED_PROMPT_TOKENS)
    if step.part == part.INTERFERENCE:
        return await measure_interference(context)
    assert step.cell is not None
    return await measure_cell(context, step.cell)
