"""Turns the path of a field of the contract into that of a caller's JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence


def find_json_path(table: Sequence[tuple[re.Pattern[str], str]], path: str) -> str | None:
    """Return what the first pattern that is the whole path makes of it; None without one.

    Args:
        table: patterns with what stands for them, as in `re.sub`.
        path: such as ``chat.tools[0].name``.
    """
    for pattern, json_path in table:
        if pattern.fullmatch(path):
            return pattern.sub(json_path, path)
    return None
