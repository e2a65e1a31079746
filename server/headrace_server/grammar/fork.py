"""One check in a process of its own, with little memory."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import msgspec

from headrace_server.child_process import die_with_parent
from headrace_server.grammar.check import check

if TYPE_CHECKING:
    from headrace_server.engine.grammar_vocabulary import GrammarVocabulary
    from headrace_server.grammar.spec import ConstraintSpec

# What a check may take beyond what the worker has anyway. The largest schemas that were tried
# took a tenth; the engine keeps as much for each grammar and each of its sequences.
MAX_CHECK_BYTES: Final = 64 * 1024 * 1024

# Its process would otherwise go on where the worker ends and cannot take it along.
_MAX_PROCESSOR_SECONDS: Final = 20

# The engine compiles in threads with four times as much: a grammar that exhausts a stack ends its
# check, and never the engine.
STACK_BYTES: Final = 4 * 1024 * 1024

_STANDARD_STREAMS: Final = (0, 1, 2)


def fork_check(spec: ConstraintSpec, vocabulary: GrammarVocabulary) -> tuple[int, int]:
    """Begin a check.

    Returns:
        The process id, and the pipe from which a `Verdict` in msgpack can be read. One that is
        not complete means that the process had not enough of something.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _check_and_exit(spec, vocabulary, writer)
    os.close(writer)
    return pid, reader


def _check_and_exit(spec: ConstraintSpec, vocabulary: GrammarVocabulary, writer: int) -> NoReturn:
    status = 1
    try:
        die_with_parent()
        _keep_quiet()
        _set_limits()
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(check(spec, vocabulary)))
        status = 0
    finally:
        os._exit(status)  # nothing of the worker's own may run here


def _keep_quiet() -> None:
    """Drop what a library prints, which may quote the constraint."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in _STANDARD_STREAMS:
        os.dup2(null, descriptor)


def _set_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_PROCESSOR_SECONDS,) * 2)
    _, most = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, most))
    if sys.platform == "linux":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MAX_CHECK_BYTES,) * 2)
