"""A runner that overlaps as one on a GPU does, without a GPU."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from headrace_server.engine.model_runner import ModelDescription, RowOutput

MAX_STEPS_IN_PROGRESS = 2

# Passed on in place of a token that comes late, and behind a row at fault.
OTHER_TOKEN = 1


class HeldRunner:
    """Implements `OverlappingRunner` over a runner that computes at once.

    Results are held until they are asked for, in the order of the steps, and what is raised is
    held too. Tokens go from step to step by the runner alone.

    Args:
        late_every: so many of the tokens of a sequence come late: another one is passed on.
    """

    def __init__(self, runner, late_every=None):
        self._runner = runner
        self._late_every = late_every
        self._passed_on = []
        self._in_progress = deque()
        self.num_awaited_rows = 0

    @property
    def description(self) -> ModelDescription:
        return self._runner.description

    def forward(self, batch):
        assert all(row.awaited_row is None for row in batch)
        return self._runner.forward(batch)

    def begin(self, batch):
        rows = [self._with_token(row) for row in batch]
        held = _HeldStep(self._in_progress, [], None)
        try:
            results = self._runner.forward(rows)
        except Exception as error:
            self._passed_on = [OTHER_TOKEN] * len(rows)
            held.error = error
        else:
            held.results = [
                replace(result, is_late=True) if self._is_late(row, result) else result
                for row, result in zip(rows, results, strict=True)
            ]
            self._passed_on = [
                OTHER_TOKEN if self._is_late(row, result) else getattr(result, "token_id", None)
                for row, result in zip(rows, results, strict=True)
            ]
        self._in_progress.append(held)
        assert len(self._in_progress) <= MAX_STEPS_IN_PROGRESS
        return held

    def _with_token(self, row):
        if row.awaited_row is None:
            return row
        assert list(row.token_ids) == [0]
        self.num_awaited_rows += 1
        token_id = self._passed_on[row.awaited_row]
        return replace(
            row, token_ids=[OTHER_TOKEN if token_id is None else token_id], awaited_row=None
        )

    def _is_late(self, row, result):
        if self._late_every is None or not isinstance(result, RowOutput) or row.sampling is None:
            return False
        return row.sampling.position % self._late_every == 0


@dataclass(eq=False)
class _HeldStep:
    in_progress: deque
    results: list
    error: Exception | None

    def result(self):
        while self.in_progress.popleft() is not self:
            """The engine has given up the steps before."""
        if self.error is not None:
            raise self.error
        return self.results
