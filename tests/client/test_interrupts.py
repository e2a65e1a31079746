"""Ctrl-C at any moment of a blocking call: the client can be closed."""

import signal
import subprocess
import sys
import threading

import pytest

from headrace.interrupts import HeldInterrupt
from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, piece

NUM_CALLS = 200
# Interrupts calls at moments that are spread over all that they do, and closes the clients. A
# timer's signal passes on to the handler of SIGINT, as Ctrl-C in the same moment would.
SCRIPT = f"""
import random, signal, sys, threading, headrace

def pass_on(number, frame):
    signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)

signal.signal(signal.SIGALRM, pass_on)
target, kind = sys.argv[1:]
moments, interrupted = random.Random(7), 0
for _ in range({NUM_CALLS}):
    client = headrace.Client(target)
    client.check_health()
    try:
        signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-5, 1.5e-3))
        if kind == "stream":
            for _ in client.stream("Hi"):
                pass
        else:
            client.tokenize("Hi")
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    closing = threading.Thread(target=client.close, daemon=True)
    closing.start()
    closing.join({BOUND_SECONDS})
    if closing.is_alive():
        sys.exit("close() hangs")
print(interrupted)
"""


@pytest.mark.parametrize("kind", ["stream", "unary"])
def test_a_client_can_be_closed_after_an_interrupt(server, kind):
    """Whatever the client is doing when Ctrl-C comes, close() ends."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, server.target, kind],
        capture_output=True,
        text=True,
        timeout=2 * BOUND_SECONDS,
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > NUM_CALLS // 10


@pytest.fixture
def waiting(server):
    """What tells that the answer has begun and nothing more comes."""
    hold = Hold()
    server.script = lambda request: iter([Admit(), piece("Hel"), hold])
    return hold.reached


def test_ctrl_c_ends_a_wait_at_once(client, server, waiting):
    """A loop that waits for the next piece is interrupted, and the server told."""

    def press():
        waiting.wait(BOUND_SECONDS)
        signal.raise_signal(signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt), client.stream("Hi") as stream:
        for _ in stream:
            pass
    pressing.join()
    assert server.calls[0].wait_until_cancelled()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_program_is_left_alone():
    """What a program does at Ctrl-C itself, it does at once, also in the midst of a call."""
    taken = []
    previous = signal.signal(signal.SIGINT, lambda *_: taken.append("Ctrl-C"))
    try:
        with HeldInterrupt():
            signal.raise_signal(signal.SIGINT)
            assert taken == ["Ctrl-C"]
    finally:
        signal.signal(signal.SIGINT, previous)


def test_another_thread_holds_nothing(server):
    """Signals belong to the main thread; others can call as well."""
    handlers = []

    def call():
        with HeldInterrupt():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
