"""What the engine asks of a model: the ModelRunner protocol and the batch it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from headrace_server.engine.logprobs import TokenLogprobs


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The part of one sequence that a step computes.

    Args:
        sequence_id: names the row's sequence in faults and logs.
        token_ids: the ids to compute in this step, at least one; they stand at
            positions `start` … `start + len(token_ids) - 1`.
        start: number of tokens whose keys and values are in the cache already.
        block_ids: the KV blocks of the sequence in order, enough for
            `start + len(token_ids)` tokens; a block may belong to several rows.
        sampling: how to choose the next token; None when the prompt is not
            complete after this step, so that nothing is to be chosen.
        prompt_logprobs: which log probabilities of the prompt are wanted; None for none.
        awaited_row: index of the row of the step before whose chosen token is the one to compute,
            known to nobody yet: `token_ids` has a 0 in its place. See `OverlappingRunner`.
    """

    sequence_id: int
    token_ids: Sequence[int]
    start: int
    block_ids: Sequence[int]
    sampling: RowSampling | None
    prompt_logprobs: PromptLogprobs | None = None
    awaited_row: int | None = None


@dataclass(frozen=True, slots=True)
class PromptLogprobs:
    """Asks how likely the tokens of the prompt were.

    Args:
        target_token_ids: `target_token_ids[i]` is the prompt's token behind `token_ids[i]` of
            the row; one fewer than the row's tokens where the row ends with the prompt.
        num_top: how many of the most likely tokens are told with each.
    """

    target_token_ids: Sequence[int]
    num_top: int


class TokenMask(Protocol):
    """The tokens that a constraint allows at one position, made while the model runs."""

    def wait(self) -> npt.NDArray[np.int32]:
        """Return the bits, [ceil(vocabulary / 32)]: bit i % 32 of word i // 32 allows token i."""


@dataclass(frozen=True, slots=True)
class RowSampling:
    """How the token at `position` is chosen.

    The choice depends on the logits, on these values and on nothing else, so that
    an answer with a seed does not depend on the batch and can be resumed.

    Args:
        position: index of the chosen token in its sequence, prompt included.
        banned_token_ids: ids that may not be chosen at this position.
        logit_bias: what is added to the logits of some ids.
        presence_penalty: what is taken off the logit of each id in `output_token_ids`.
        frequency_penalty: the same for every time it occurs there.
        repetition_penalty: divides positive and multiplies negative logits of the ids in
            `prompt_token_ids` and `output_token_ids`.
        prompt_token_ids: filled where a penalty looks at it.
        output_token_ids: filled where a penalty looks at it.
        mask: the tokens that a constraint leaves; None leaves all.
        num_top_logprobs: how many of the most likely tokens are told with the log probability of
            the chosen one; None wants no log probabilities.
    """

    position: int
    temperature: float
    top_k: int | None
    top_p: float
    min_p: float
    seed: int
    banned_token_ids: Sequence[int]
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    prompt_token_ids: Sequence[int] = ()
    output_token_ids: Sequence[int] = ()
    mask: TokenMask | None = None
    num_top_logprobs: int | None = None

    @property
    def needs_tokens_before(self) -> bool:
        """Whether the choice looks at the tokens before it, and not only the model does."""
        penalties = (self.presence_penalty, self.frequency_penalty, self.repetition_penalty)
        return self.mask is not None or penalties != (0.0, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class RowOutput:
    """What a step made of a row.

    Args:
        token_id: the chosen id; None for a row without `sampling`.
        logprobs: of the chosen id, where they are wanted.
        prompt_logprobs: one for each target of `PromptLogprobs`.
        is_late: whether a row of the next step that awaited `token_id` has computed another one,
            so that its output is void.
    """

    token_id: int | None
    logprobs: TokenLogprobs | None = None
    prompt_logprobs: Sequence[TokenLogprobs] = ()
    is_late: bool = False


class RowFault(Enum):
    """Why a row could not be continued; its neighbours are untouched.

    `NOTHING_ALLOWED`: banned ids and the mask leave no token. `RAISED` is the engine's own verdict
    on a row with which `forward` raised; a runner returns the others.
    """

    NOT_A_NUMBER = "not_a_number"
    NOTHING_ALLOWED = "nothing_allowed"
    RAISED = "raised"


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """The facts of a loaded model; see `BackendModel` for those not told here.

    Args:
        device_type: where it runs, such as ``cpu`` or ``cuda``.
    """

    directory: str
    context_length: int
    vocabulary_size: int
    num_blocks: int
    block_size: int
    device_type: str


class ModelLoadError(Exception):
    """The model cannot be served; the message is one sentence that says what to do."""


class ReportProgress(Protocol):
    """Told of the phases of loading, such as ``("converting weights", 0.4)``."""

    def __call__(self, phase: str, fraction: float | None = None) -> None:
        """Take note; `fraction` is from 0 to 1 where it is known."""


class ModelRunner(Protocol):
    """A loaded model with its KV cache. Used by one thread."""

    @property
    def description(self) -> ModelDescription:
        """The facts of the model."""

    def forward(self, batch: Sequence[BatchRow]) -> list[RowOutput | RowFault]:
        """Compute a step and choose a token for each row that has a `sampling`.

        When it raises, the engine calls it again with each row alone, so that only
        the row at fault fails; computing the same positions twice must do no harm.

        Returns:
            One entry per row of `batch`: its output, or the fault that ends this row alone.
        """


class PendingStep(Protocol):
    """A step that is being computed."""

    def result(self) -> list[RowOutput | RowFault]:
        """Wait for the step and return what `ModelRunner.forward` does; called once."""


@runtime_checkable
class OverlappingRunner(ModelRunner, Protocol):
    """A runner that computes while the engine does something else."""

    def begin(self, batch: Sequence[BatchRow]) -> PendingStep:
        """Begin a step behind those that were begun before, and return at once.

        Steps store to the KV cache and read from it in the order in which they are begun, so that
        a block may have other owners in each. At most two are waited for at a time.

        Args:
            batch: its rows may await tokens of the step that was begun last.
        """
