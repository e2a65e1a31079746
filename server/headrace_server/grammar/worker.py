"""The process that checks constraints: ``python -m headrace_server.grammar.worker``.

Started by `headrace_server.grammar.worker_process`, never by hand. Each check is a fork of it,
which has the tokenizer of the model from the start, and can be killed whatever it does.
"""

from __future__ import annotations

import argparse
import math
import os
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from headrace_server.child_process import follow_parent
from headrace_server.engine.frames import FrameBuffer, encode_frame
from headrace_server.engine.grammar_vocabulary import GrammarVocabulary, VocabularyError
from headrace_server.grammar.fork import fork_check
from headrace_server.grammar.messages import Check, Checked, Unsound, Verdict
from headrace_server.grammar.refusal import too_complex, too_slow

_READ_BYTES: Final = 256 * 1024

# A check that takes longer than most must not slow down the answers that are being made: from then
# on it gets a tenth of what the engine gets of a processor that both want.
_PATIENT_AFTER_SECONDS: Final = 0.25
_NICENESS: Final = 10

_check_decoder: Final = msgspec.msgpack.Decoder(Check)
_verdict_decoder: Final = msgspec.msgpack.Decoder[Verdict](Verdict)


def main() -> int:
    """Answer checks until the front closes the socket, and return the exit status."""
    parser = argparse.ArgumentParser(prog="headrace_server.grammar.worker")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--vocabulary-size", type=int, required=True)
    parser.add_argument("--check-seconds", type=float, required=True)
    arguments = parser.parse_args()
    follow_parent()
    os.set_inheritable(arguments.fd, False)
    vocabulary: GrammarVocabulary | VocabularyError
    try:
        vocabulary = GrammarVocabulary.load(arguments.model, arguments.vocabulary_size)
    except VocabularyError as error:
        vocabulary = error
    with socket.socket(fileno=arguments.fd) as connection, suppress(ConnectionError):
        Worker(connection, vocabulary, arguments.check_seconds).run()
    return 0


@dataclass(slots=True, eq=False)
class _Fork:
    """A check in progress.

    Args:
        pipe: where its verdict comes from.
        patient_time: when it has to stand back, of `time.monotonic`.
        end_time: when it is given up.
        answer: what has come.
    """

    request: Check
    pid: int
    pipe: int
    patient_time: float
    end_time: float
    answer: bytearray = field(default_factory=bytearray)
    is_patient: bool = False
    is_overdue: bool = False

    @property
    def next_time(self) -> float:
        """When there is something to do to it."""
        if self.is_overdue:
            return math.inf
        return self.end_time if self.is_patient else self.patient_time

    @property
    def verdict(self) -> Verdict:
        """What it has found, or why it has found nothing. To be asked when it has ended."""
        with suppress(msgspec.DecodeError):
            return _verdict_decoder.decode(self.answer)
        if self.is_overdue:
            return Unsound(too_slow(self.request.spec), is_certain=False)
        return Unsound(too_complex(self.request.spec))


class Worker:
    """Forks a process for each check, and kills those that take too long.

    Args:
        connection: a stream socket to the front, which bounds the number of checks.
        vocabulary: of the model, or why it has none.
        check_seconds: what a check may take.
    """

    def __init__(
        self,
        connection: socket.socket,
        vocabulary: GrammarVocabulary | VocabularyError,
        check_seconds: float,
    ) -> None:
        self._connection = connection
        self._vocabulary = vocabulary
        self._check_seconds = check_seconds
        self._buffer = FrameBuffer()
        self._selector = selectors.DefaultSelector()
        self._forks: list[_Fork] = []
        self._is_open = True

    def run(self) -> None:
        """Work until the front closes the socket.

        Raises:
            ConnectionError: the front has died.
        """
        self._selector.register(self._connection, selectors.EVENT_READ)
        while self._is_open:
            for key, _ in self._selector.select(self._seconds_until_next()):
                if key.data is None:
                    self._receive()
                else:
                    self._read_answer(key.data)
            self._restrain_forks()

    def _receive(self) -> None:
        data = self._connection.recv(_READ_BYTES)
        self._is_open = bool(data)
        for body in self._buffer.feed(data):
            self._start(_check_decoder.decode(body))

    def _start(self, request: Check) -> None:
        if isinstance(self._vocabulary, VocabularyError):
            self._send(Checked(request.check_id, Unsound(str(self._vocabulary))))
            return
        pid, pipe = fork_check(request.spec, self._vocabulary)
        now = time.monotonic()
        fork = _Fork(request, pid, pipe, now + _PATIENT_AFTER_SECONDS, now + self._check_seconds)
        self._forks.append(fork)
        self._selector.register(pipe, selectors.EVENT_READ, fork)

    def _read_answer(self, fork: _Fork) -> None:
        """Take a part of an answer; nothing more comes when the fork has ended."""
        data = os.read(fork.pipe, _READ_BYTES)
        fork.answer += data
        if data:
            return
        self._selector.unregister(fork.pipe)
        os.close(fork.pipe)
        os.waitpid(fork.pid, 0)
        self._forks.remove(fork)
        self._send(Checked(fork.request.check_id, fork.verdict))

    def _seconds_until_next(self) -> float | None:
        """How long nothing is to be done, unless something comes; None for ever."""
        next_time = min((fork.next_time for fork in self._forks), default=math.inf)
        return None if next_time == math.inf else max(0.0, next_time - time.monotonic())

    def _restrain_forks(self) -> None:
        """Let those that take long stand back, and kill those that take too long."""
        now = time.monotonic()
        for fork in self._forks:
            if fork.end_time <= now and not fork.is_overdue:
                fork.is_patient = fork.is_overdue = True
                os.kill(fork.pid, signal.SIGKILL)
            elif fork.patient_time <= now and not fork.is_patient:
                fork.is_patient = True
                # Below the worker, which may have been started below others itself; the kernel
                # takes what is beyond its range as the end of it.
                niceness = os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS
                os.setpriority(os.PRIO_PROCESS, fork.pid, niceness)

    def _send(self, message: Checked) -> None:
        self._connection.sendall(encode_frame(message))


if __name__ == "__main__":
    sys.exit(main())
