"""Threads that work beside the steps."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Of address space; what a thread does not use takes no memory.
STACK_BYTES: Final = 16 * 1024 * 1024


class DeepThreads:
    """A pool of threads with deep stacks.

    Args:
        num_threads: most at a time; they are started when they are needed.
        name: of the threads.
    """

    def __init__(self, num_threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(num_threads, thread_name_prefix=name)

    def submit(
        self,
        function: Callable[Parameters, Result],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        """Have a function called in a thread."""
        usual = threading.stack_size(STACK_BYTES)  # of threads that start from here on
        try:
            return self._pool.submit(function, *args, **kwargs)
        finally:
            threading.stack_size(usual)

    def close(self) -> None:
        """Drop what waits. A thread that is at work ends after it."""
        self._pool.shutdown(wait=False, cancel_futures=True)
