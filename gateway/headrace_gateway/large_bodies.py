"""A thread for what takes long with a large body, so that the event loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

LARGE_BYTES = 64 * 1024
"""Bodies with more bytes take milliseconds; smaller ones are read where they are, at once."""


class LargeBodies:
    """One thread, for one large body at a time: many would keep the interpreter from the loop.

    The thread begins with the first large body and ends with this object.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large-body")

    async def run(self, num_bytes: int, function: Callable[[], _T]) -> _T:
        """Call `function`, for a large body in the thread; not at all where cancelled in line.

        Args:
            num_bytes: the length of the body that it works on.
            function: must not depend on the event loop.
        """
        if num_bytes <= LARGE_BYTES:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)
