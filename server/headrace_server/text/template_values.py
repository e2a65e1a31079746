"""The texts inside the values that a chat template is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def texts_in(value: Any) -> Iterator[str]:
    """Yield all texts of a JSON value in order, keys of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


def with_texts(value: Any, replace: Callable[[], str]) -> Any:
    """Return a JSON value in which each text is what `replace` returns, in the order of `texts_in`.

    Keys that become the same are one afterwards.
    """
    if isinstance(value, str):
        return replace()
    if isinstance(value, dict):
        return {replace(): with_texts(each, replace) for each in value.values()}
    if isinstance(value, list):
        return [with_texts(each, replace) for each in value]
    return value
