"""What the scheduler asks of constraints: a compiler that works beside the steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.messages import Constraint
    from headrace_server.engine.model_runner import TokenMask


class ConstraintError(Exception):
    """The constraint cannot be followed; the message is one sentence for the log."""


class ConstraintState(Protocol):
    """How far one output has followed its constraint. It belongs to one sequence.

    It follows the output alone: when a sequence is preempted and computed again, its tokens are
    not chosen anew, so that the state stays as it is.
    """

    def mask(self, *, may_stop: bool) -> TokenMask:
        """Begin to make the mask of the next token and return at once.

        Called once for each step in which a token is chosen, before the model runs; that token
        may never come, as when the sequence is aborted in the step.

        Args:
            may_stop: whether a stop token can be chosen where another one can be.
        """

    def accept(self, token_id: int) -> bool:
        """Advance by the token that was chosen; False when the constraint does not allow it.

        Not called for a stop token, which ends the sequence.
        """

    @property
    def is_complete(self) -> bool:
        """Whether nothing can follow the tokens that were accepted, so that the sequence ends."""


class PendingConstraint(Protocol):
    """A constraint that is being compiled for one sequence. No method waits."""

    @property
    def is_ready(self) -> bool:
        """Whether `take` has an answer; asked before each step."""

    def take(self) -> ConstraintState:
        """Return the state before the first token; called once, when it is ready.

        Raises:
            ConstraintError: it could not be compiled, or not in time; the sequence fails.
        """

    def cancel(self) -> None:
        """Nobody waits for it any more: the sequence was aborted before `take`."""


class ConstraintCompiler(Protocol):
    """Compiles constraints in the background."""

    def start(self, constraint: Constraint, stop_token_ids: Sequence[int]) -> PendingConstraint:
        """Begin to compile and return at once; each sequence has its own result.

        Args:
            constraint: what the output must match.
            stop_token_ids: the ids that end the sequence. Those that are no text can be chosen
                exactly where the output may end; the others are text like any other.
        """
