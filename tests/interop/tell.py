"""Tells results to people."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.interop.clients import Client
    from tests.interop.suite import Result

_LONGEST_PROBLEM = 1500


def tell_results(client: Client, results: Iterable[Result], where: str = "") -> str:
    """What went wrong, a paragraph for each scenario; nothing where nothing did."""
    head = f"{where}{client.name}"
    return "\n".join(_tell(result, head) for result in results if is_bad(result, client))


def is_bad(result: Result, client: Client) -> bool:
    """Whether a result is not what it should be: also a success of what cannot be done."""
    return bool(result.problems) or (
        (result.unsupported is not None) != (result.scenario in client.unsupported)
    )


def _tell(result: Result, head: str) -> str:
    problems = list(result.problems)
    if not problems:
        problems = [
            "it can do what it is declared not to"
            if result.unsupported is None
            else f"it cannot do it, which is not declared: {result.unsupported}"
        ]
    lines = [textwrap.shorten(problem, _LONGEST_PROBLEM) for problem in problems]
    return "\n    ".join([f"{head}: {result.scenario}", *lines])
