"""The front's side of the process that checks constraints."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from typing import TYPE_CHECKING, Final

import msgspec

from headrace_server.engine.frames import LENGTH_BYTES, FrameError, decode_length, encode_frame
from headrace_server.grammar.messages import Check, Checked
from headrace_server.spawn import spawn_child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from headrace_server.grammar.messages import Verdict
    from headrace_server.grammar.spec import ConstraintSpec

# A worker that is silent for so long beyond what a check may take is no use: it has to start, read
# a tokenizer, which takes seconds on a busy machine, and give up the checks before.
_SILENCE_SECONDS: Final = 60.0

_decoder: Final = msgspec.msgpack.Decoder(Checked)


class WorkerLostError(Exception):
    """The worker has ended, or was killed because it was silent."""


class GrammarWorker:
    """A worker that is starting or running.

    Args:
        check_seconds: what a check may take.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        check_seconds: float,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._check_seconds = check_seconds
        self._check_ids = itertools.count()
        self._waiting: dict[int, asyncio.Future[Verdict]] = {}
        self.is_lost = False

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def check(self, spec: ConstraintSpec) -> Verdict:
        """Have a constraint checked.

        Raises:
            WorkerLostError: there is nobody to do it any more.
        """
        if self.is_lost:
            raise WorkerLostError
        check_id = next(self._check_ids)
        verdict: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting[check_id] = verdict
        try:
            self._writer.write(encode_frame(Check(check_id, spec)))
            async with asyncio.timeout(self._check_seconds + _SILENCE_SECONDS):
                return await verdict
        except TimeoutError as error:
            self.kill()
            raise WorkerLostError from error
        finally:
            del self._waiting[check_id]

    async def run(self) -> None:
        """Hand verdicts to those who wait for them, until the process ends or talks nonsense."""
        try:
            while True:
                length = decode_length(await self._reader.readexactly(LENGTH_BYTES))
                checked = _decoder.decode(await self._reader.readexactly(length))
                verdict = self._waiting.get(checked.check_id)
                if verdict is not None and not verdict.done():
                    verdict.set_result(checked.verdict)
        except (asyncio.IncompleteReadError, ConnectionError, FrameError, msgspec.DecodeError):
            self.kill()
            self.is_lost = True
            for verdict in self._waiting.values():
                if not verdict.done():
                    verdict.set_exception(WorkerLostError())


@contextlib.asynccontextmanager
async def start_worker(
    directory: Path, vocabulary_size: int, check_seconds: float
) -> AsyncIterator[GrammarWorker]:
    """Start a worker for a model; on leaving it is dead and reaped.

    Args:
        directory: of the model.
        vocabulary_size: number of ids that the model can choose.
        check_seconds: a check that takes longer is given up.
    """
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            process = await spawn_child(
                "headrace_server.grammar.worker",
                theirs,
                *("--model", str(directory)),
                *("--vocabulary-size", str(vocabulary_size)),
                *("--check-seconds", str(check_seconds)),
            )
            worker = GrammarWorker(process, reader, writer, check_seconds)
            try:
                yield worker
            finally:
                worker.kill()
                await process.wait()
        finally:
            writer.transport.abort()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
