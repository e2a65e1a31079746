"""What is found of a token that was drawn for a row."""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """Whether a token is the choice. Tensors hold it as a number."""

    KEPT = 0
    """It is the choice."""
    DROPPED = 1
    """Top-k or top-p drop it; what they keep stands before it."""
    UNKNOWN = 2
    """Whether they drop it takes a closer look."""
    BEATABLE = 3
    """A token that was not looked at may be the better one."""
