"""Has steps computed; where the runner can, the next one is begun before the last is waited for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace_server.engine.model_runner import OverlappingRunner, RowFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import (
        BatchRow,
        ModelRunner,
        PendingStep,
        RowOutput,
    )
    from headrace_server.engine.scheduler import Scheduler
    from headrace_server.engine.step import Step

# After so many calls of the model in a row that raised, the fault is not in the requests:
# the process ends and is started again.
MAX_CONSECUTIVE_FAILURES = 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun:
    """A step in progress.

    Args:
        pending: None where the runner computes it when it is waited for.
    """

    step: Step
    pending: PendingStep | None


class StepPipeline:
    """Brings the steps of a scheduler to a runner.

    With a plain runner one step is chosen, computed and committed after the other. With an
    `OverlappingRunner` the next step is chosen and begun before the results of the last are waited
    for, so that the device goes on while they are handled.
    """

    def __init__(self, scheduler: Scheduler, runner: ModelRunner) -> None:
        self._scheduler = scheduler
        self._runner = runner
        self._overlapping = runner if isinstance(runner, OverlappingRunner) else None
        self._begun: _Begun | None = None
        self._ahead: _Begun | None = None
        self._num_consecutive_failures = 0

    @property
    def is_busy(self) -> bool:
        """Whether a step is in progress that has not been waited for."""
        return self._ahead is not None

    def begin(self) -> bool:
        """Have the next step begun, unless it is; False when there is nothing to compute."""
        self._begun, self._ahead = self._ahead, None
        if self._begun is None:
            step = self._scheduler.schedule()
            if step.rows:
                self._begun = _Begun(step, self._begin(step))
        if self._begun is not None and self._begun.pending is not None:
            self._begin_ahead(self._begun.step)
        return self._begun is not None

    def wait(self) -> tuple[Step, list[RowOutput | RowFault]]:
        """Return the step that `begin` was about with its results, to be committed."""
        begun, self._begun = self._begun, None
        assert begun is not None  # as `begin` has said
        if begun.pending is None:
            return begun.step, self._forward(begun.step.rows)
        try:
            results = begun.pending.result()
        except Exception as error:  # noqa: BLE001  # it is logged, or raised anew
            self._note_failure(error)
            self._abandon_ahead()
            return begun.step, self._compute_again(begun.step)
        self._num_consecutive_failures = 0
        return begun.step, results

    def _begin(self, step: Step) -> PendingStep | None:
        if self._overlapping is None:
            return None
        try:
            return self._overlapping.begin(step.rows)
        except Exception as error:  # noqa: BLE001  # it is logged, or raised anew
            self._note_failure(error)
            return None

    def _begin_ahead(self, begun: Step) -> None:
        step = self._scheduler.schedule_ahead(begun)
        if step is None or not step.rows:
            return
        pending = self._begin(step)
        if pending is None:
            self._scheduler.abandon(step)
        else:
            self._ahead = _Begun(step, pending)

    def _abandon_ahead(self) -> None:
        """What was computed on top of a step that failed is worth nothing."""
        if self._ahead is not None:
            self._scheduler.abandon(self._ahead.step)
            self._ahead = None

    def _compute_again(self, step: Step) -> list[RowOutput | RowFault]:
        results: list[RowOutput | RowFault] = [RowFault.RAISED] * len(step.rows)
        indices = list(step.live_indices())
        if indices:
            computed = self._forward(step.known_rows())
            for index, result in zip(indices, computed, strict=True):
                results[index] = result
        return results

    def _forward(self, rows: Sequence[BatchRow]) -> list[RowOutput | RowFault]:
        """Run the model; when it raises, find the rows at fault by running each alone."""
        try:
            results = self._runner.forward(rows)
        except Exception as error:  # noqa: BLE001  # it is logged, or raised anew
            self._note_failure(error)
            if len(rows) == 1:
                return [RowFault.RAISED]
            return [result for row in rows for result in self._forward([row])]
        self._num_consecutive_failures = 0
        return results

    def _note_failure(self, error: Exception) -> None:
        self._num_consecutive_failures += 1
        if self._num_consecutive_failures >= MAX_CONSECUTIVE_FAILURES:
            raise error
        _log.error("step failed", exc_info=error)
