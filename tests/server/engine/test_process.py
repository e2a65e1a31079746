"""The engine as a process of its own, under a front that is only a socket."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from headrace_server.engine.frames import FrameBuffer, encode_frame
from headrace_server.engine.messages import EngineMessage, LoadFailed, Loading, Ready, Stop
from headrace_server.engine.settings import EngineSettings, SimulatedSettings
from headrace_server.grammar.spec import RegexConstraint
from tests.server.engine.following import constraint_of
from tests.server.engine.stepped_engine import add_sequence

SIMULATED = EngineSettings(runner="simulated")


@contextmanager
def running_engine(settings):
    """Yield the process, our end of the socket, and a reader of the messages up to EOF."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [sys.executable, "-m", "headrace_server.engine"]
        descriptor = theirs.fileno()
        process = subprocess.Popen(
            [*command, "--fd", str(descriptor), "--epoch", "1"],
            pass_fds=[descriptor],
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        ours.settimeout(20)
        ours.sendall(encode_frame(settings))
        try:
            yield process, ours, read_messages(ours)
        finally:
            process.kill()
            process.wait()


def read_messages(connection):
    buffer = FrameBuffer()
    while data := connection.recv(1 << 16):
        for body in buffer.feed(data):
            yield msgspec.msgpack.decode(body, type=EngineMessage)


def messages_until_finish(messages):
    """The messages up to the one with the end of a sequence."""
    for message in messages:
        yield message
        if any(output.finish for output in message.outputs):
            return


def wait_for_ready(messages):
    return next(message for message in messages if isinstance(message, Ready))


def test_it_loads_serves_and_stops():
    """Progress, then the facts of the model, then exit status 0 on request."""
    with running_engine(SIMULATED) as (process, front, messages):
        first = next(messages)
        ready = wait_for_ready(messages)
        front.sendall(encode_frame(Stop()))

        assert first == Loading(1, "starting")
        assert ready.context_length == 8192
        assert process.wait(timeout=10) == 0


def test_it_follows_constraints():
    """The tokens of the model that it serves are those that a constraint lets through."""
    constraint = constraint_of(RegexConstraint("[0-9]{3}-[A-Z]{2}"))
    with running_engine(SIMULATED) as (_, front, messages):
        wait_for_ready(messages)
        front.sendall(encode_frame(add_sequence(0, b"a plate", constraint=constraint)))
        outputs = [
            output for message in messages_until_finish(messages) for output in message.outputs
        ]

    answer = bytes(token_id for output in outputs for token_id in output.token_ids)
    assert re.fullmatch(rb"[0-9]{3}-[A-Z]{2}", answer)
    assert outputs[-1].finish == "complete"


def test_it_ends_when_the_front_closes_the_socket():
    """EOF is enough, whatever else happens to the front."""
    with running_engine(SIMULATED) as (process, front, messages):
        wait_for_ready(messages)
        front.close()

        assert process.wait(timeout=10) == 0


def test_it_leaves_signals_to_the_front():
    """Ctrl-C and the stop of a service manager reach the engine too, which must go on."""
    with running_engine(SIMULATED) as (process, front, messages):
        wait_for_ready(messages)
        os.kill(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGTERM)
        beat = next(messages)
        front.sendall(encode_frame(Stop()))

        assert beat.outputs == []
        assert process.wait(timeout=10) == 0


def test_a_model_that_cannot_be_served_is_told_in_one_sentence():
    """The message of a ModelLoadError goes to the front as it is."""
    settings = EngineSettings(runner="simulated", kv_cache_bytes=1)
    with running_engine(settings) as (process, _, messages):
        *_, last = messages

        assert isinstance(last, LoadFailed)
        assert last.message.startswith("The KV cache of 1 bytes does not hold one block")
        assert process.wait(timeout=10) == 1


def test_another_fault_of_loading_is_told_without_its_text():
    """An exception's text stays in the log."""
    settings = EngineSettings(runner="simulated", block_size=0)
    with running_engine(settings) as (process, _, messages):
        *_, last = messages

        assert last.message == (
            "The model could not be loaded because of a fault of the server; see its log."
        )
        assert process.wait(timeout=10) == 1


def test_a_context_that_exceeds_the_kv_memory_is_shortened():
    """A sequence that is admitted must fit when it is alone."""
    settings = EngineSettings(
        runner="simulated",
        kv_cache_bytes=10 * 16 * 4,
        simulated=SimulatedSettings(context_length=1000),
    )
    with running_engine(settings) as (_, _, messages):
        ready = wait_for_ready(messages)

    assert ready.context_length == 160
    assert ready.stats.num_total_blocks == 10


def test_its_socket_is_not_inherited_by_what_it_starts():
    """Its death must close the socket even when it has started other programs."""
    with running_engine(SIMULATED) as (process, _, messages):
        wait_for_ready(messages)
        arguments = psutil.Process(process.pid).cmdline()
        descriptor = arguments[arguments.index("--fd") + 1]
        info = Path(f"/proc/{process.pid}/fdinfo/{descriptor}").read_text()

    (flags,) = [line.split()[1] for line in info.splitlines() if line.startswith("flags:")]
    assert int(flags, 8) & os.O_CLOEXEC
