"""The native backend: `Backend` on top of an own engine process."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

from headrace_server.backends.interface import BackendFinish, BackendLoad
from headrace_server.backends.native.admission import Admission
from headrace_server.backends.native.sequences import to_sequences
from headrace_server.backends.native.stream import TokenStream
from headrace_server.backends.native.supervisor import EngineSupervisor
from headrace_server.engine.messages import AbortSequence, Stats, StepResult
from headrace_server.errors import EngineUnavailableError, RequestFailedError
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

    from headrace_server.backends.interface import BackendModel, BackendRequest, BackendStatus
    from headrace_server.backends.native.admission import AdmissionLimits
    from headrace_server.backends.native.supervisor import SupervisionLimits
    from headrace_server.engine.messages import SequenceOutput
    from headrace_server.engine.settings import EngineSettings

_log = logging.getLogger(__name__)

_NO_STATS = Stats(
    num_steps=0,
    num_computed_tokens=0,
    num_running=0,
    num_waiting=0,
    num_free_blocks=0,
    num_total_blocks=0,
)


class NativeBackend:
    """Implements `Backend` and `EngineListener`.

    Entering starts the engine and does not wait until it is ready. When the first engine cannot
    load the model, the body of the `async with` is cancelled and the statement raises
    `EngineLoadError`. Leaving ends the engine; streams that are still open fail.
    """

    def __init__(
        self,
        settings: EngineSettings,
        admission_limits: AdmissionLimits,
        supervision_limits: SupervisionLimits,
    ) -> None:
        self._supervisor = EngineSupervisor(settings, supervision_limits, self)
        self._stop_timeout_seconds = supervision_limits.stop_timeout_seconds
        self._admission = Admission(admission_limits, settings.max_num_sequences)
        self._streams: dict[int, TokenStream] = {}
        self._queued_ids: set[int] = set()
        self._next_sequence_id = 0
        self._stats = _NO_STATS
        self._tasks = asyncio.TaskGroup()
        self.num_ignored_outputs = 0

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._run_task = self._tasks.create_task(self._supervisor.run())
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._supervisor.stop():
                await asyncio.wait([self._run_task], timeout=self._stop_timeout_seconds)
        finally:
            self._run_task.cancel()
            try:
                await self._tasks.__aexit__(exception_type, exception, traceback)
            except BaseExceptionGroup as group:
                if len(group.exceptions) > 1:
                    raise
                (alone,) = group.exceptions
                raise alone from alone.__cause__

    @property
    def model(self) -> BackendModel | None:
        """The loaded model; None until it was ready for the first time."""
        return self._supervisor.model

    @property
    def status(self) -> BackendStatus:
        """The state now."""
        return self._supervisor.status.current

    async def wait_for_status_change(self, seen: BackendStatus) -> BackendStatus:
        """Wait until the status differs from `seen` and return it."""
        return await self._supervisor.status.wait_for_change(seen)

    @property
    def load(self) -> BackendLoad:
        """The engine's counters as of its last frame, and the ledger as of now."""
        stats = self._stats
        return BackendLoad(
            num_running=stats.num_running,
            num_waiting=stats.num_waiting,
            num_free_blocks=stats.num_free_blocks,
            num_total_blocks=stats.num_total_blocks,
            num_opened=self._admission.num_opened,
            num_closed=self._admission.num_closed,
            num_steps=stats.num_steps,
            num_computed_tokens=stats.num_computed_tokens,
            num_cached_blocks=stats.num_cached_blocks,
            num_preemptions=stats.num_preemptions,
            num_prompt_tokens=stats.num_prompt_tokens,
            num_cached_prompt_tokens=stats.num_cached_prompt_tokens,
        )

    @property
    def engine_pid(self) -> int | None:
        """The process id of the engine; None between two engines."""
        return self._supervisor.engine_pid

    @asynccontextmanager
    async def submit(self, request: BackendRequest) -> AsyncIterator[TokenStream]:
        """Open a stream; see `Backend.submit`."""
        stream = self._open(request)
        try:
            yield stream
        finally:
            stream.leave()

    def _open(self, request: BackendRequest) -> TokenStream:
        if not self._supervisor.is_ready:
            raise EngineUnavailableError(
                "The engine is loading the model or is being restarted; try again later.",
                self._supervisor.retry_after_seconds,
            )
        num_prompt_tokens = len(request.prompt_token_ids)
        now = asyncio.get_running_loop().time()
        self._admission.open(request.num_candidates, num_prompt_tokens, now)
        first_id = self._next_sequence_id
        self._next_sequence_id += request.num_candidates
        sequence_ids = range(first_id, self._next_sequence_id)
        stream = TokenStream(sequence_ids, request.request_id, num_prompt_tokens, self._abort)
        self._queued_ids.update(sequence_ids)
        for message in to_sequences(request, sequence_ids):
            self._streams[message.sequence_id] = stream
            self._supervisor.send(message)
        return stream

    def _abort(self, sequence_id: int) -> None:
        if sequence_id in self._streams:
            self._supervisor.send(AbortSequence(sequence_id))

    @property
    def is_busy(self) -> bool:
        """Whether the engine has sequences that it has not acknowledged the end of."""
        return bool(self._streams)

    def on_ready(self, stats: Stats) -> None:
        """Take note of the size of the KV cache."""
        self._stats = stats

    def on_step(self, result: StepResult) -> None:
        """Hand the outputs of a step to their streams."""
        self._stats = result.stats
        for output in result.outputs:
            stream = self._streams.get(output.sequence_id)
            if stream is None:
                self.num_ignored_outputs += 1
            else:
                self._take_output(stream, output)

    def on_lost(self) -> None:
        """Fail every stream: their sequences are gone with the engine."""
        self._stats = _NO_STATS
        for sequence_id, stream in list(self._streams.items()):
            stream.fail(
                EngineUnavailableError(
                    "The engine ended before the answer was complete; try again.",
                    self._supervisor.retry_after_seconds,
                )
            )
            self._close(stream, sequence_id)

    def _take_output(self, stream: TokenStream, output: SequenceOutput) -> None:
        if output.started:
            self._leave_queue(stream, output.sequence_id)
            stream.start(output.num_cached_tokens)
        match output.finish:
            case None:
                stream.put(output, None)
                return
            case "stop_token" | "complete" | "max_output_tokens":
                stream.put(output, BackendFinish(output.finish))
            case "failed":
                log_event(
                    _log,
                    logging.ERROR,
                    "engine failed on request",
                    request_id=stream.request_id,
                    sequence_id=output.sequence_id,
                )
                error = RequestFailedError("The engine failed on this request.")
                stream.fail_candidate(output.sequence_id, error)
            case "aborted":
                pass  # the stream has given it up, and says so itself to whoever reads on
        self._close(stream, output.sequence_id)

    def _close(self, stream: TokenStream, sequence_id: int) -> None:
        """The one terminal transition of a sequence."""
        del self._streams[sequence_id]
        self._leave_queue(stream, sequence_id)
        self._admission.close(asyncio.get_running_loop().time())

    def _leave_queue(self, stream: TokenStream, sequence_id: int) -> None:
        if sequence_id in self._queued_ids:
            self._queued_ids.remove(sequence_id)
            self._admission.leave_queue(stream.num_queued_tokens(sequence_id))
