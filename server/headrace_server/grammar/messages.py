"""The messages between the front and the worker that checks constraints, tagged by type."""

from __future__ import annotations

import msgspec

# msgspec reads the annotations at run time.
from headrace_server.grammar.spec import ConstraintSpec


class Check(msgspec.Struct, frozen=True):
    """Check a constraint. The ids of a worker's checks differ."""

    check_id: int
    spec: ConstraintSpec


class Sound(msgspec.Struct, frozen=True, tag="sound"):
    """The constraint can be followed.

    Args:
        grammar: see `engine.messages.Constraint`.
    """

    grammar: str


class Unsound(msgspec.Struct, frozen=True, tag="unsound"):
    """The constraint cannot be followed.

    Args:
        message: one sentence for the caller, which may quote the constraint.
        is_certain: False where it may be otherwise another time, as on a machine that has rest.
    """

    message: str
    is_certain: bool = True


Verdict = Sound | Unsound


class Checked(msgspec.Struct, frozen=True):
    """The answer to a `Check`."""

    check_id: int
    verdict: Verdict
