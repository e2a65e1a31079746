"""Checks the constraints of requests before the engine sees them."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from headrace_server.engine.messages import Constraint
from headrace_server.errors import (
    EngineUnavailableError,
    InvalidConstraintError,
    OverloadedError,
    RequestError,
)
from headrace_server.grammar.fair_slots import FairSlots, SlotLimits
from headrace_server.grammar.messages import Unsound
from headrace_server.grammar.sizes import size_problem
from headrace_server.grammar.worker_process import GrammarWorker, WorkerLostError, start_worker
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from headrace_server.grammar.messages import Verdict
    from headrace_server.grammar.spec import ConstraintSpec

# What a check may take on the clock. Almost all take milliseconds.
CHECK_SECONDS: Final = 5.0

# Seconds after which a caller is told to try again.
RETRY_AFTER_SECONDS: Final = 1.0

# One caller can keep half of the places busy with what takes too long. Those who wait are as many
# as can be served within some seconds in the common case.
SLOTS: Final = SlotLimits(
    num_slots=4,
    num_slots_per_caller=2,
    max_waiting=256,
    max_waiting_per_caller=64,
    retry_after_seconds=RETRY_AFTER_SECONDS,
)

# Verdicts that are kept, of at most some 200 KiB each: most callers repeat their constraints.
MAX_KEPT_VERDICTS: Final = 128

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Model:
    directory: Path
    vocabulary_size: int


class GrammarChecker:
    """Turns constraints into grammars that the engine can follow, and refuses all others.

    The work is done in a process of its own, which is started with the first constraint.
    Leaving ends it.

    Args:
        check_seconds: a check that takes longer is given up.
    """

    def __init__(self, check_seconds: float = CHECK_SECONDS) -> None:
        self._check_seconds = check_seconds
        self._model: _Model | None = None
        self._slots = FairSlots(SLOTS)
        self._verdicts: OrderedDict[ConstraintSpec, Verdict] = OrderedDict()
        self._running: dict[ConstraintSpec, asyncio.Task[Verdict | RequestError]] = {}
        self._tasks = asyncio.TaskGroup()
        self._worker: GrammarWorker | None = None
        self._worker_stack = AsyncExitStack()
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        try:
            await asyncio.gather(*running, return_exceptions=True)
            await self._worker_stack.aclose()
        finally:
            await self._tasks.__aexit__(None, None, None)

    @property
    def worker_pid(self) -> int | None:
        """The process id of the worker; None where there is none now."""
        return None if self._worker is None or self._worker.is_lost else self._worker.pid

    def use_model(self, directory: Path, vocabulary_size: int) -> None:
        """Check for this model from now on.

        Args:
            directory: has its tokenizer.json.
            vocabulary_size: number of ids that the model can choose.
        """
        model = _Model(directory, vocabulary_size)
        if model != self._model:
            self._model = model
            self._verdicts.clear()
            if self._worker is not None:
                self._worker.kill()

    async def compile(self, spec: ConstraintSpec, field: str, caller: str = "") -> Constraint:
        """Return the grammar of a constraint. The same one again is told at once.

        Args:
            spec: the constraint as it came.
            field: its path in the request, for the error.
            caller: takes turns with the others.

        Raises:
            InvalidConstraintError: it is malformed, too large or too complex. The message may
                quote it, and is for the caller alone.
            OverloadedError: too many wait for a check.
            EngineUnavailableError: there is no model yet.
        """
        problem = size_problem(spec)
        if problem is not None:
            raise InvalidConstraintError(field, problem)
        if self._model is None:
            message = "The model is not loaded yet; try again later."
            raise EngineUnavailableError(message, RETRY_AFTER_SECONDS)
        verdict = self._verdicts.get(spec) or await self._check_once(spec, caller)
        if isinstance(verdict, Unsound):
            raise InvalidConstraintError(field, verdict.message)
        return Constraint(verdict.grammar)

    async def _check_once(self, spec: ConstraintSpec, caller: str) -> Verdict:
        """Check a constraint, or wait for the one who is at it."""
        task = self._running.get(spec)
        if task is None:
            # Not of the group: a fault of one check is for those who wait for it.
            task = asyncio.create_task(self._check(spec, caller))
            self._running[spec] = task
            task.add_done_callback(lambda _: self._running.pop(spec))
        # Others may wait for it as well, and it ends soon: whoever gives up leaves it alone.
        outcome = await asyncio.shield(task)
        if isinstance(outcome, RequestError):
            raise outcome
        return outcome

    async def _check(self, spec: ConstraintSpec, caller: str) -> Verdict | RequestError:
        try:
            async with self._slots.take(caller):
                verdict = await self._ask_worker(spec)
        except OverloadedError as error:
            return error
        except WorkerLostError as error:
            log_event(_log, logging.ERROR, "constraint not checked", why=str(error.__cause__))
            message = "The server could not check the constraint; try again."
            return OverloadedError(message, RETRY_AFTER_SECONDS)
        if not isinstance(verdict, Unsound) or verdict.is_certain:
            self._keep(spec, verdict)
        return verdict

    async def _ask_worker(self, spec: ConstraintSpec) -> Verdict:
        try:
            return await (await self._running_worker()).check(spec)
        except WorkerLostError:
            # Most likely somebody killed it; a second time it would be for a reason.
            return await (await self._running_worker()).check(spec)

    async def _running_worker(self) -> GrammarWorker:
        async with self._starting:
            if self._worker is None or self._worker.is_lost:
                await self._worker_stack.aclose()
                model = self._model
                assert model is not None
                start = start_worker(model.directory, model.vocabulary_size, self._check_seconds)
                try:
                    self._worker = await self._worker_stack.enter_async_context(start)
                except OSError as error:  # the machine has no process or file left
                    raise WorkerLostError from error
                self._tasks.create_task(self._follow(self._worker))
            return self._worker

    async def _follow(self, worker: GrammarWorker) -> None:
        await worker.run()
        log_event(_log, logging.INFO, "grammar worker ended", pid=worker.pid)

    def _keep(self, spec: ConstraintSpec, verdict: Verdict) -> None:
        self._verdicts[spec] = verdict
        if len(self._verdicts) > MAX_KEPT_VERDICTS:
            self._verdicts.popitem(last=False)
