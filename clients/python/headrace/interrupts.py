"""Keeps Ctrl-C out of gRPC, which an exception in the midst of its bookkeeping leaves unable to
close its channel.
"""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType


class HeldInterrupt:
    """Holds Ctrl-C back during the body: it raises `KeyboardInterrupt` when the body is left.

    Where the program has a handler of its own, or another thread runs this, nothing is held.

    Args:
        cancel: ends what the body waits for; None for a body that does not wait.
    """

    def __init__(self, cancel: Callable[[], object] | None = None) -> None:
        self._cancel = cancel
        self._is_holding = False
        self._is_interrupted = False

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._is_holding = True
            signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_holding:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._is_interrupted:
            # Not from the error of the call, which was cancelled for this.
            raise KeyboardInterrupt from None

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._is_interrupted = True
        if self._cancel is not None:
            self._cancel()
