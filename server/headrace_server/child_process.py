"""What a process of the server does that was started by another one of it."""

from __future__ import annotations

import ctypes
import signal
import sys


def follow_parent() -> None:
    """Never outlive the parent, and never end before it.

    Ctrl-C in a terminal and the stop of a service manager reach every process; the parent
    wants to finish its work first, and tells its children when.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent()


def die_with_parent() -> None:
    """Be killed when the parent ends, however it does. Linux alone has this."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
