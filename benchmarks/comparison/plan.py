"""What is to be measured of whom, and how long that may take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from comparison import generate, part
from comparison.cell import Cell, grid
from comparison.parts import interference, serving_cost
from comparison.peer import Peer, Ports, Sizing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from comparison.options import Options

REPEATED_PROMPT_TOKENS: Final = 512
NUM_REPEATED_PROMPTS: Final = 3
TRANSPORT_STREAMS: Final = (1, 64, 256)

# First guesses only; what has been measured replaces them.
_GUESS_START_SECONDS = 12.0
_GUESS_PREFILL_TOKENS_PER_SECOND = 600.0
_GUESS_TOKENS_PER_SECOND = 150.0
_GUESS_TOKENS_PER_SECOND_OF_STREAM = 30.0
_GUESS_TRANSPORT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that is measured.

    Args:
        case: in words; together with part and peer it is unique in a round.
        guess_seconds: how long it may take.
        cell: the load, for the grid.
        num_streams: for the transport.
        num_loads: how many loads share the step, each with the time limit of one.
    """

    part: str
    case: str
    guess_seconds: float
    cell: Cell | None = None
    num_streams: int = 1
    num_loads: int = 1


@dataclass(frozen=True, slots=True)
class Visit:
    """Steps on one start of one peer.

    Args:
        peer: None is `transformers` generate, which is no server.
        steps: in this order; an engine-alone step runs after the server has stopped.
    """

    peer: Peer | None
    sizing: Sizing
    steps: tuple[Step, ...]

    @property
    def name(self) -> str:
        """The peer's name."""
        return generate.NAME if self.peer is None else self.peer.name

    def with_steps(self, steps: Iterable[Step]) -> Visit:
        """The same start for other steps."""
        return replace(self, steps=tuple(steps))


def plan_visits(options: Options, peers: Sequence[Peer], simulated: Peer) -> tuple[Visit, ...]:
    """All visits of one round, in the order in which they are made."""
    visits: list[Visit] = []
    if generate.NAME in options.rivals and part.GRID in options.parts:
        visits.append(_visit_generate(options))
    for peer in peers:
        visits.extend(_visits_of(options, peer))
    if part.TRANSPORT in options.parts:
        steps = tuple(
            Step(
                part.TRANSPORT,
                "1 stream" if count == 1 else f"{count} streams",
                _GUESS_TRANSPORT_SECONDS,
                num_streams=count,
                num_loads=2,
            )
            for count in TRANSPORT_STREAMS
        )
        visits.append(Visit(simulated, Sizing(max(TRANSPORT_STREAMS), 0), steps))
    return tuple(visits)


def _visit_generate(options: Options) -> Visit:
    # It answers one request at a time, so more streams only wait: their throughput is the same.
    cells = grid((1,), options.prompts, options.num_output_tokens)
    steps = tuple(_grid_step(cell) for cell in cells)
    return Visit(None, Sizing(1, 0), steps)


def _visits_of(options: Options, peer: Peer) -> list[Visit]:
    cells = grid(options.streams, options.prompts, options.num_output_tokens)
    steps: list[Step] = []
    needs = [Sizing(1, REPEATED_PROMPT_TOKENS + options.num_output_tokens)]
    if part.START in options.parts:
        steps.append(Step(part.START, "cached model", 1.0))
    if part.GRID in options.parts:
        steps += [_grid_step(cell) for cell in cells]
        needs += [Sizing(one.num_streams, _context_tokens(one)) for one in cells]
    if part.REPEAT in options.parts:
        work = 2 * NUM_REPEATED_PROMPTS * REPEATED_PROMPT_TOKENS / _GUESS_PREFILL_TOKENS_PER_SECOND
        steps.append(Step(part.REPEAT, f"{REPEATED_PROMPT_TOKENS} tokens", work))
    if part.SERVING in options.parts and peer.is_headrace:
        needs.append(Sizing(serving_cost.CELL.num_streams, _context_tokens(serving_cost.CELL)))
        guess = _guess(serving_cost.CELL)
        steps.append(Step(part.SERVING, "fronts", 2 * guess, num_loads=2))
        steps.append(Step(part.SERVING, serving_cost.ENGINE, guess + _GUESS_START_SECONDS))
    room = Sizing(
        num_streams=max(need.num_streams for need in needs),
        context_tokens=max(need.context_tokens for need in needs),
    )
    visits = [Visit(peer, room, tuple(steps))] if steps else []
    if part.INTERFERENCE in options.parts:
        visits.append(_visit_interference(peer))
    return _join(visits)


def _visit_interference(peer: Peer) -> Visit:
    running = interference.RUNNING
    step = Step(
        part.INTERFERENCE,
        f"{running.num_streams} streams, prompts of {interference.LONG_PROMPT_TOKENS}",
        2 * _guess(running)
        + 3 * interference.LONG_PROMPT_TOKENS / _GUESS_PREFILL_TOKENS_PER_SECOND,
        num_loads=2,
    )
    room = Sizing(2 * running.num_streams, interference.LONG_PROMPT_TOKENS + 64)
    return Visit(peer, room, (step,))


def _join(visits: list[Visit]) -> list[Visit]:
    """Save the second start of a server that is started alike for every load."""
    if len(visits) != 2:
        return visits
    first, second = visits
    ports = Ports(1, 2)
    assert first.peer is not None
    if first.peer.launch(first.sizing, ports) != first.peer.launch(second.sizing, ports):
        return visits
    last = tuple(step for step in first.steps if step.case == serving_cost.ENGINE)
    others = tuple(step for step in first.steps if step not in last)
    return [Visit(first.peer, first.sizing, (*others, *second.steps, *last))]


def _grid_step(cell: Cell) -> Step:
    return Step(part.GRID, cell.name, _guess(cell), cell=cell)


def _context_tokens(cell: Cell) -> int:
    return cell.num_prompt_tokens + cell.num_output_tokens


def _guess(cell: Cell) -> float:
    rate = min(cell.num_streams * _GUESS_TOKENS_PER_SECOND_OF_STREAM, _GUESS_TOKENS_PER_SECOND)
    prefill_tokens = cell.num_requests * cell.num_prompt_tokens
    return cell.total_output_tokens / rate + prefill_tokens / _GUESS_PREFILL_TOKENS_PER_SECOND
