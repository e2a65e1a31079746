"""Runs the plan: round after round, and in each round peer after peer."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from comparison import metric, part
from comparison.answer import WrongAnswerError
from comparison.generate import generate
from comparison.history import History
from comparison.http_client import http_client
from comparison.load import RequestFailedError
from comparison.measure import Finding, measure_step
from comparison.measurement import Measurement
from comparison.parts.context import Context
from comparison.parts.grid import measure_cell
from comparison.parts.serving_cost import ENGINE, measure_engine_alone
from comparison.parts.transport import simulated_peer
from comparison.plan import plan_visits
from comparison.progress import Progress
from comparison.server import ServerFailedError, running

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from pathlib import Path
    from typing import Any

    from comparison.load import Asker
    from comparison.model_files import ModelFiles
    from comparison.options import Options
    from comparison.peer import Peer
    from comparison.plan import Step, Visit
    from comparison.prompts import Prompts


class Comparison:
    """One run of the comparison.

    Args:
        measurements: where everything that is measured goes, in the order of time.
        save: called after each visit, so that an interrupted run loses little.
    """

    def __init__(
        self,
        options: Options,
        peers: Sequence[Peer],
        model: ModelFiles,
        prompts: Prompts,
        log_directory: Path,
        measurements: list[Measurement],
        save: Callable[[], None],
    ) -> None:
        self._options = options
        self._peers = peers
        self._model = model
        self._prompts = prompts
        self._log_directory = log_directory
        self._measurements = measurements
        self._save = save
        self._history = History()
        self._progress = Progress(self._history, options.num_rounds)
        self._round = 0

    async def run(self) -> None:
        """Make all rounds for which there is time; the first is always made."""
        deadline = time.perf_counter() + self._options.total_seconds
        all_visits = plan_visits(self._options, self._peers, simulated_peer())
        visits: Sequence[Visit] = all_visits
        for round_index in range(self._options.num_rounds):
            if round_index > 0:
                left_seconds = deadline - time.perf_counter()
                visits = self._history.worth_repeating(all_visits, left_seconds)
                if not visits:
                    self._progress.say(f"no time for round {round_index + 1}")
                    return
            self._round = round_index
            self._progress.begin_round(round_index, visits)
            for visit in visits:
                await self._make(visit)
                self._save()

    async def _make(self, visit: Visit) -> None:
        """Make all steps of a visit, with a fresh start after each that went wrong."""
        pending = list(visit.steps)
        while pending:
            try:
                if visit.peer is None:
                    await self._ask_generate(visit, pending)
                elif pending[0].case == ENGINE:
                    await self._run_engine(visit.peer, pending.pop(0))
                else:
                    await self._ask_server(visit, visit.peer, pending)
            except ServerFailedError as error:
                for step in pending:
                    self._note_problem(visit.name, step, str(error))
                self._progress.say(f"{visit.name}: {error}")
                return

    async def _ask_server(self, visit: Visit, peer: Peer, pending: list[Step]) -> None:
        """Start a server and take steps from the list until one goes wrong."""
        log_file, limit = self._log_file(peer.name), self._options.start_seconds
        async with (
            running(peer, visit.sizing, log_file, limit) as server,
            http_client(server.url, peer.fields) as client,
        ):
            self._history.note_start(peer.name, server.start_seconds)
            context = self._context(client, server.pids)
            is_well = True
            while is_well and pending and pending[0].case != ENGINE:
                step = pending.pop(0)
                is_well = await self._take(
                    peer.name, step, measure_step(step, peer, server, context)
                )

    async def _ask_generate(self, visit: Visit, pending: list[Step]) -> None:
        """The same for the one peer that is no server."""
        begin = time.perf_counter()
        async with generate(self._model.directory, self._log_file(visit.name)) as asker:
            self._history.note_start(visit.name, time.perf_counter() - begin)
            context = self._context(asker, (asker.pid,))

            async def measure(step: Step) -> list[Finding]:
                assert step.cell is not None
                figures = await measure_cell(context, step.cell)
                return [Finding(step.case, visit.name, figures)]

            is_well = True
            while is_well and pending:
                step = pending.pop(0)
                is_well = await self._take(visit.name, step, measure(step))

    async def _run_engine(self, peer: Peer, step: Step) -> None:
        async def measure() -> list[Finding]:
            log_file = self._log_file(f"{peer.name} engine")
            rate = await measure_engine_alone(peer, self._prompts, self._label, log_file)
            return [Finding(peer.name, ENGINE, {metric.TOKENS_PER_SECOND.key: rate})]

        await self._take(peer.name, step, measure())

    async def _take(self, name: str, step: Step, work: Coroutine[Any, Any, list[Finding]]) -> bool:
        """Do the work within its time, and note what came of it.

        Returns:
            whether the peer is fit for the next step.
        """
        if self._history.is_hopeless(name, step):
            work.close()
            problem = "left out: a load that is no heavier went wrong"
            self._note_problem(name, step, problem)
            return True
        begin = self._progress.begin_step(name, step)
        limit = self._options.cell_seconds * step.num_loads
        try:
            async with asyncio.timeout(limit):
                findings = await work
        except TimeoutError:
            problem = f"not finished in {limit:.0f} s"
        except (RequestFailedError, WrongAnswerError) as error:
            problem = f"failed: {error}"
        else:
            self._history.note_seconds(name, step, time.perf_counter() - begin)
            self._measurements.extend(
                Measurement(step.part, one.case, one.peer, self._round, one.figures)
                for one in findings
            )
            self._progress.end_step(name, step, begin, "; ".join(map(str, findings)))
            return True
        self._history.note_seconds(name, step, time.perf_counter() - begin)
        self._note_problem(name, step, problem)
        self._progress.end_step(name, step, begin, problem)
        return False

    def _note_problem(self, name: str, step: Step, problem: str) -> None:
        self._history.note_problem(name, step)
        # In the table of the fronts each peer is a case, and the fronts are its rows.
        case, row = (name, step.case) if step.part == part.SERVING else (step.case, name)
        self._measurements.append(Measurement(step.part, case, row, self._round, problem=problem))

    def _context(self, asker: Asker, pids: Sequence[int]) -> Context:
        return Context(asker, self._prompts, self._label, pids)

    @property
    def _label(self) -> str:
        return f"round {self._round}"

    def _log_file(self, name: str) -> Path:
        return self._log_directory / f"{name.replace(' ', '-')}.log"
