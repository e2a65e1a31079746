"""A token for each row: the one way into the sampling."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace_server.engine.model_runner import RowFault, RowOutput
from headrace_server.models.sampling.bias import add_bias_
from headrace_server.models.sampling.blocks import Blocks
from headrace_server.models.sampling.choice import Choice
from headrace_server.models.sampling.logprobs import token_logprobs
from headrace_server.models.sampling.mask import apply_masks_
from headrace_server.models.sampling.penalties import penalise_

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from headrace_server.engine.logprobs import TokenLogprobs
    from headrace_server.engine.model_runner import RowSampling


class Sampling:
    """Chooses one token per row, see the package for the rules.

    Masks are waited for at once, after everything else that can be done without them.

    Args:
        logits: float32 [rows, vocabulary]; overwritten where rows change them, and not to be
            changed by others before `wait` has returned.
        rows: how to choose, one for each row of `logits`, at least one.

    Raises:
        IndexError: an id of a row is outside the vocabulary.
    """

    def __init__(self, logits: torch.Tensor, rows: Sequence[RowSampling]) -> None:
        told = [index for index, row in enumerate(rows) if row.num_top_logprobs is not None]
        is_changed = any(_changes_logits(row) for row in rows)
        # The model's own distribution is told; what is changed in place would be lost.
        self._raw = logits[told] if told and (is_changed or len(told) < len(rows)) else logits
        if is_changed:
            add_bias_(logits, rows)
            penalise_(logits, rows)
            apply_masks_(logits, rows)
        self._told = told
        self._rows = rows
        self._choice = Choice(Blocks.of(logits), rows)

    def first_tokens(self) -> torch.Tensor:
        """Return what is mostly the choice; see `Choice.first_tokens`."""
        return self._choice.first_tokens()

    def wait(self) -> tuple[list[RowOutput | RowFault], set[int]]:
        """Return the choices, and the rows of which `first_tokens` is another.

        Each choice is with its log probabilities, or it is why there is none.
        """
        choices, differing = self._choice.wait()
        outputs: list[RowOutput | RowFault] = [
            choice if isinstance(choice, RowFault) else RowOutput(choice) for choice in choices
        ]
        if self._told:
            token_ids = [_token_id(outputs[index]) for index in self._told]
            num_tops = [self._rows[index].num_top_logprobs or 0 for index in self._told]
            logprobs = token_logprobs(self._raw, token_ids, num_tops)
            for index, told in zip(self._told, logprobs, strict=True):
                outputs[index] = _with_logprobs(outputs[index], told)
        return outputs, differing


def sample(logits: torch.Tensor, rows: Sequence[RowSampling]) -> list[RowOutput | RowFault]:
    """Choose one token per row; see `Sampling`."""
    outputs, _ = Sampling(logits, rows).wait()
    return outputs


def _token_id(output: RowOutput | RowFault) -> int:
    """Return the id to look up, any for a row that has none."""
    return 0 if isinstance(output, RowFault) else output.token_id or 0


def _with_logprobs(
    output: RowOutput | RowFault, logprobs: TokenLogprobs | RowFault
) -> RowOutput | RowFault:
    if isinstance(output, RowFault):
        return output
    return logprobs if isinstance(logprobs, RowFault) else replace(output, logprobs=logprobs)


def _changes_logits(row: RowSampling) -> bool:
    return bool(
        row.banned_token_ids
        or row.logit_bias
        or row.mask is not None
        or row.presence_penalty
        or row.frequency_penalty
        or row.repetition_penalty != 1.0
    )
