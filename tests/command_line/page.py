"""What docs/command-line.md holds: its examples, and how the service of each is started."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
TEXT = (CHECKOUT / "docs" / "command-line.md").read_text()


@dataclass(frozen=True)
class Example:
    """One block.

    Attributes:
        place: the heading above it, and which block below that it is, from 1.
        script: what the reader copies.
        flags: those of `headrace serve` that the section names, keys and files as on the page.
    """

    place: str
    script: str
    flags: tuple[str, ...]


def examples() -> list[Example]:
    """Return all blocks of the page in order."""
    return [
        Example(f"{heading} {number}", script, _flags(section))
        for heading, section in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", TEXT, re.MULTILINE)
        for number, script in enumerate(_blocks(section), start=1)
    ]


def _blocks(section: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def _flags(section: str) -> tuple[str, ...]:
    start = re.search(r"`headrace serve ([^`]*)`", section)
    return tuple(shlex.split(start[1])) if start else ()
