"""Keeps an engine running: starts it, notices when it dies or hangs, and starts it again."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace_server.backends.interface import BackendModel, BackendState
from headrace_server.backends.native.process import start_engine
from headrace_server.backends.native.status import StatusBoard
from headrace_server.engine.frames import FrameError
from headrace_server.engine.messages import LoadFailed, Loading, Ready, StepResult, Stop
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from headrace_server.backends.native.process import EngineProcess
    from headrace_server.engine.messages import FrontMessage, Stats
    from headrace_server.engine.settings import EngineSettings

# How finely silence is measured. It is counted in ticks of this loop, so that a pause of
# the front itself is not held against the engine.
_TICK_SECONDS = 0.25

_FIRST_RESTART_SECONDS = 0.25
_MAX_RESTART_DOUBLINGS = 7  # to 32 s
_MIN_RETRY_SECONDS = 0.5
_MAX_RETRY_SECONDS = 30.0
_UNKNOWN_LOAD_SECONDS = 2.0

_log = logging.getLogger(__name__)


class EngineLoadError(Exception):
    """The model cannot be served; the message is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class SupervisionLimits:
    """How long an engine may be silent before it counts as hung and is killed.

    Args:
        idle_timeout_seconds: with nothing to do; it gives a sign of life twice a second.
        step_timeout_seconds: with work to do; longer than the longest step.
        load_timeout_seconds: while loading, between two signs of progress.
        stop_timeout_seconds: how long it may take to stop when told to.
    """

    idle_timeout_seconds: float = 5.0
    step_timeout_seconds: float = 60.0
    load_timeout_seconds: float = 600.0
    stop_timeout_seconds: float = 2.0


class EngineListener(Protocol):
    """Told, without waiting, what becomes of the engine."""

    @property
    def is_busy(self) -> bool:
        """Whether the engine has work to do."""

    def on_ready(self, stats: Stats) -> None:
        """A new engine takes sequences."""

    def on_step(self, result: StepResult) -> None:
        """A step was made."""

    def on_lost(self) -> None:
        """The engine is gone with all its sequences."""


class EngineSupervisor:
    """Runs one engine after another; each has its epoch, counted from 1."""

    def __init__(
        self, settings: EngineSettings, limits: SupervisionLimits, listener: EngineListener
    ) -> None:
        self._settings = settings
        self._limits = limits
        self._listener = listener
        self._engine: EngineProcess | None = None
        self._epoch = 0
        self._num_failures = 0
        self._silent_seconds = 0.0
        self._load_seconds = _UNKNOWN_LOAD_SECONDS
        self._expected_ready_time = 0.0
        self._restart_delay_seconds = 0.0
        self._load_failure: str | None = None
        self._why_lost: str | None = None
        self._is_stopping = False
        self.status = StatusBoard()
        self.model: BackendModel | None = None
        self.num_stale_messages = 0

    @property
    def is_ready(self) -> bool:
        """Whether the engine takes sequences."""
        return self.status.current.state is BackendState.READY

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine; None between two engines."""
        return None if self._engine is None else self._engine.pid

    @property
    def retry_after_seconds(self) -> float:
        """When the engine should be ready."""
        seconds = self._expected_ready_time - asyncio.get_running_loop().time()
        return min(max(seconds, _MIN_RETRY_SECONDS), _MAX_RETRY_SECONDS)

    def send(self, message: FrontMessage) -> None:
        """Send a message without waiting; without an engine it is dropped."""
        if self._engine is not None:
            self._engine.link.send(message)

    async def run(self) -> None:
        """Keep an engine running until `stop`.

        Raises:
            EngineLoadError: the first engine did not get ready.
        """
        while True:
            why = await self._run_engine()
            if self._is_stopping:
                return
            if self.model is None:
                raise EngineLoadError(
                    self._load_failure
                    or f"The model could not be loaded because {why}; the log may say more."
                )
            log_event(_log, logging.ERROR, "engine lost", epoch=self._epoch, why=why)
            self.status.show(BackendState.UNAVAILABLE, f"{why}; it is started again")
            await asyncio.sleep(self._restart_delay_seconds)

    def stop(self) -> bool:
        """Tell the engine to end; False when it would not listen before it is ready."""
        self._is_stopping = True
        if self.is_ready:
            self.send(Stop())
        return self.is_ready

    async def _run_engine(self) -> str:
        """Run one engine to its end and say why it ended."""
        self._epoch += 1
        self._load_failure = self._why_lost = None
        self._silent_seconds = 0.0
        begin_time = asyncio.get_running_loop().time()
        self._expected_ready_time = begin_time + self._load_seconds
        self.status.show(BackendState.LOADING, "starting the engine")
        async with start_engine(self._epoch) as engine, asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._watch(engine))
            self._engine = engine
            try:
                await self._converse(engine, begin_time)
            finally:
                watch.cancel()
                self._on_lost()
            # After the end of the conversation it may still have a traceback to print.
            how_ended = await engine.wait(self._limits.stop_timeout_seconds)
        return self._load_failure or self._why_lost or how_ended

    async def _converse(self, engine: EngineProcess, begin_time: float) -> None:
        """Take messages until the death notice."""
        engine.link.send(self._settings)
        try:
            while (message := await engine.link.receive()) is not None:
                self._silent_seconds = 0.0
                if message.epoch != self._epoch:
                    self.num_stale_messages += 1
                    continue
                match message:
                    case StepResult():
                        self._on_step(message)
                    case Loading():
                        self.status.show(BackendState.LOADING, _progress(message))
                    case Ready():
                        self._load_seconds = asyncio.get_running_loop().time() - begin_time
                        self._on_ready(message)
                    case LoadFailed():
                        self._load_failure = message.message
        except FrameError:
            _log.exception("engine sent what is no message")
            self._why_lost = "the engine sent what is no message"

    def _on_ready(self, message: Ready) -> None:
        self.model = BackendModel(
            directory=Path(message.directory),
            context_length=message.context_length,
            vocabulary_size=message.vocabulary_size,
        )
        self._listener.on_ready(message.stats)
        self.status.show(BackendState.READY, "ready")
        log_event(
            _log,
            logging.INFO,
            "engine ready",
            epoch=self._epoch,
            load_seconds=round(self._load_seconds, 3),
        )

    def _on_step(self, result: StepResult) -> None:
        # An engine that has made tokens works: its next end is a new one, not a crash loop.
        if self._num_failures and any(output.token_ids for output in result.outputs):
            self._num_failures = 0
        self._listener.on_step(result)

    def _on_lost(self) -> None:
        """Fail the streams, and delay the next engine: longer until one has made tokens."""
        num_doublings = min(self._num_failures, _MAX_RESTART_DOUBLINGS)
        self._num_failures += 1
        self._restart_delay_seconds = _FIRST_RESTART_SECONDS * 2.0**num_doublings
        now = asyncio.get_running_loop().time()
        self._expected_ready_time = now + self._restart_delay_seconds + self._load_seconds
        self._engine = None
        self.status.show(BackendState.UNAVAILABLE, "the engine has ended")
        self._listener.on_lost()

    async def _watch(self, engine: EngineProcess) -> None:
        """Kill the engine when it has been silent for too long."""
        while self._silent_seconds < self._timeout_seconds():
            await asyncio.sleep(_TICK_SECONDS)
            self._silent_seconds += _TICK_SECONDS
        self._why_lost = f"the engine was silent for {self._silent_seconds:.0f} s and was killed"
        engine.kill()
        await engine.link.close()  # even a process that cannot die is dead to us

    def _timeout_seconds(self) -> float:
        if not self.is_ready:
            return self._limits.load_timeout_seconds
        if self._listener.is_busy:
            return self._limits.step_timeout_seconds
        return self._limits.idle_timeout_seconds


def _progress(message: Loading) -> str:
    if message.fraction is None:
        return message.phase
    return f"{message.phase}, {message.fraction:.0%}".replace("%", " %")
