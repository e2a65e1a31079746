"""Threads in which text is turned into tokens, so that the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from headrace_server.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Callable

Result = TypeVar("Result")

# Texts with more characters take tens of milliseconds; they have threads of their own, so that
# chats do not wait behind books.
LONG_CHARACTERS = 32 * 1024

# Characters of all texts that wait for a thread: about ten seconds of work for one.
MAX_WAITING_CHARACTERS = 16 * 1024 * 1024

# Seconds after which a caller is told to try again: a good part of that work is done.
RETRY_AFTER_SECONDS = 2.0


class TextWorkers:
    """Two small pools of threads with a bounded queue.

    Args:
        num_threads: for short texts, and as many for long ones.
    """

    def __init__(self, num_threads: int) -> None:
        self._short = ThreadPoolExecutor(num_threads, thread_name_prefix="short-text")
        self._long = ThreadPoolExecutor(num_threads, thread_name_prefix="long-text")
        self._num_characters = 0

    async def run(self, num_characters: int, function: Callable[[], Result]) -> Result:
        """Call `function` in a thread. Cancelled while it waits, it is not called.

        Args:
            num_characters: the length of the text that it works on.
            function: must not depend on the event loop.

        Raises:
            OverloadedError: too much text is waiting. A text alone never is too much.
        """
        is_busy = self._num_characters > 0
        if is_busy and self._num_characters + num_characters > MAX_WAITING_CHARACTERS:
            message = "The server has too much text to read at once; try again."
            raise OverloadedError(message, RETRY_AFTER_SECONDS)
        executor = self._long if num_characters > LONG_CHARACTERS else self._short
        self._num_characters += num_characters
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, function)
        finally:
            self._num_characters -= num_characters

    def close(self) -> None:
        """Drop what waits. A thread that is at work ends after its text."""
        for executor in (self._short, self._long):
            executor.shutdown(wait=False, cancel_futures=True)
