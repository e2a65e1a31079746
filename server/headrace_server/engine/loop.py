"""The engine's loop: read the inbox, begin a step, read again, commit, tell the front."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_server.engine.messages import AbortSequence, AddSequence, StepResult, Stop
from headrace_server.engine.pipeline import StepPipeline

if TYPE_CHECKING:
    from headrace_server.engine.channel import FrontChannel
    from headrace_server.engine.model_runner import ModelRunner
    from headrace_server.engine.scheduler import Scheduler

# How often an idle engine says that it is alive.
HEARTBEAT_SECONDS = 0.5

# How often a sequence is looked after that waits for its constraint while nothing else runs.
PENDING_POLL_SECONDS = 0.002


class EngineLoop:
    """Runs a model for the sequences that the front sends.

    Args:
        epoch: goes out with every message.
    """

    def __init__(
        self, channel: FrontChannel, scheduler: Scheduler, runner: ModelRunner, epoch: int
    ) -> None:
        self._channel = channel
        self._scheduler = scheduler
        self._pipeline = StepPipeline(scheduler, runner)
        self._epoch = epoch
        self._is_stopping = False
        self._is_checked = True
        self._num_silent_polls = 0

    def run(self) -> None:
        """Serve until the front says stop.

        Raises:
            FrontGoneError: the front has died.
            BlockPoolError: KV blocks were lost; only a new process gets them back.
        """
        while not self._is_stopping:
            if self._scheduler.has_work or self._pipeline.is_busy:
                self._read_inbox(timeout_seconds=0.0)
                self._step()
            else:
                self._idle()

    def _step(self) -> None:
        is_begun = self._pipeline.begin()
        # Starts and aborts are told before the model runs, as it may take a while.
        self._tell_front(only_if_new=True)
        if is_begun:
            step, results = self._pipeline.wait()
            self._read_inbox(timeout_seconds=0.0)
            self._scheduler.commit(step, results)
            self._is_checked = False
            self._tell_front()
        elif self._scheduler.has_work:
            self._wait_for_constraints()

    def _wait_for_constraints(self) -> None:
        """Nothing can run yet: wait a moment for a message, and give a sign of life at times."""
        self._read_inbox(PENDING_POLL_SECONDS)
        self._num_silent_polls += 1
        if self._num_silent_polls * PENDING_POLL_SECONDS >= HEARTBEAT_SECONDS:
            self._num_silent_polls = 0
            self._tell_front()

    def _idle(self) -> None:
        """Wait for a message; when none comes, check the books once and give a sign of life."""
        if self._read_inbox(HEARTBEAT_SECONDS):
            self._tell_front(only_if_new=True)
            return
        if not self._is_checked:
            self._scheduler.check_integrity()
            self._is_checked = True
        self._tell_front()

    def _read_inbox(self, timeout_seconds: float) -> bool:
        """The one place where sequences come and are given up; False when nothing came."""
        messages = self._channel.receive(timeout_seconds)
        for message in messages:
            match message:
                case AddSequence():
                    self._scheduler.add(message)
                case AbortSequence():
                    self._scheduler.abort(message.sequence_id)
                case Stop():
                    self._is_stopping = True
        return bool(messages)

    def _tell_front(self, *, only_if_new: bool = False) -> None:
        outputs = self._scheduler.take_outputs()
        if outputs or not only_if_new:
            self._channel.send(StepResult(self._epoch, outputs, self._scheduler.stats))
