"""A person at a terminal, as far as a program can tell."""

import contextlib
import os
import pty
import select
import subprocess
import time
from contextlib import contextmanager

import psutil

from tests.client.scripted_server import BOUND_SECONDS

CTRL_C = b"\x03"
CTRL_D = b"\x04"


class Terminal:
    """The terminal of a command that runs in it."""

    def __init__(self, process, controller):
        self.process = process
        self._controller = controller
        self._unread = b""
        self.shown = b""

    def type(self, keys):
        """Type as soon as the program waits for something.

        A person is no quicker, and readline does not see a Ctrl-C between the moment in which it
        shows its prompt and that in which it begins to wait, until another key is typed.
        """
        program, end = psutil.Process(self.process.pid), time.monotonic() + BOUND_SECONDS
        while program.status() != psutil.STATUS_SLEEPING:
            assert time.monotonic() < end, program
            os.sched_yield()
        os.write(self._controller, keys if isinstance(keys, bytes) else keys.encode())

    def wait_for(self, words):
        """Wait until the words are shown, after those that were waited for before."""
        end = time.monotonic() + BOUND_SECONDS
        words = words.encode()
        while words not in self._unread:
            assert self._read(end - time.monotonic()), f"{words!r} not in {self._unread!r}"
        self._unread = self._unread.partition(words)[2]

    def wait_for_end(self):
        """Read to the end and return the exit status."""
        end = time.monotonic() + BOUND_SECONDS
        while self._read(end - time.monotonic()):
            pass
        return self.process.wait(BOUND_SECONDS)

    def _read(self, seconds):
        if seconds <= 0 or not select.select([self._controller], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._controller, 4096)
        except OSError:  # the other end is closed
            return False
        self._unread += data
        self.shown += data
        return bool(data)


@contextmanager
def terminal(command, environment):
    """Run a command as the leader of a session with a terminal, as a shell does."""
    controller, side = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=side,
        stdout=side,
        stderr=side,
        env={**environment, "TERM": "xterm"},
        start_new_session=True,
        preexec_fn=lambda: _take_terminal(side),
    )
    os.close(side)
    try:
        yield Terminal(process, controller)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(BOUND_SECONDS)
        os.close(controller)


def _take_terminal(side):
    # Opening makes it the controlling terminal of the new session, so that ^C is a signal.
    with contextlib.suppress(OSError):
        os.close(os.open(os.ttyname(side), os.O_RDWR))
