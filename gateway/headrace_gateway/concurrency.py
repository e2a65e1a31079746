"""Running several things at once, of which the first error counts."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator

_T = TypeVar("_T")


async def all_of(coroutines: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run all at once and return their results in order.

    Raises:
        Exception: that of the first that failed; the others are cancelled.
    """
    with first_error():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
    return [task.result() for task in tasks]


@contextmanager
def first_error() -> Iterator[None]:
    """Raise the first error of a TaskGroup instead of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
