"""Begins steps on a GPU while the results of the one before are still being handled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from headrace_server.engine.model_runner import RowFault, RowOutput
from headrace_server.models.sampling.sampler import Sampling
from headrace_server.models.transfers import to_device

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import BatchRow, ModelDescription
    from headrace_server.models.runner import TorchRunner


class OverlappingTorchRunner:
    """Implements `OverlappingRunner`; everything is launched on one stream of the device.

    The tokens of a step go to the next one on the device. They are those that the sampling tries
    first; where it has to look again, the row's token comes late.

    Args:
        runner: that computes steps of which results are waited for at once.
    """

    def __init__(self, runner: TorchRunner) -> None:
        self._runner = runner
        self._chosen: torch.Tensor | None = None

    @property
    def description(self) -> ModelDescription:
        """The facts of the model."""
        return self._runner.description

    def forward(self, batch: Sequence[BatchRow]) -> list[RowOutput | RowFault]:
        """Compute a step; see `ModelRunner.forward`."""
        return self._runner.forward(batch)

    def begin(self, batch: Sequence[BatchRow]) -> TorchStep:
        """Begin a step; see `OverlappingRunner.begin`.

        A step with log probabilities of a prompt is computed at once.
        """
        if any(row.prompt_logprobs is not None for row in batch):
            return TorchStep(self.forward(self._with_tokens(batch)), (), None)
        with torch.inference_mode():
            step, logits = self._runner.launch(batch, self._chosen)
            device = step.token_ids.device
            outputs: list[RowOutput | RowFault] = [RowOutput(None)] * len(batch)
            self._chosen = torch.zeros(len(batch), dtype=torch.int64, device=device)
            if not step.samplings:
                return TorchStep(outputs, (), None)
            # A copy, for the next step may overwrite what the decoder returns.
            sampling = Sampling(logits.clone(), step.samplings)
            rows = to_device(torch.tensor(step.sampled_rows), device)
            self._chosen.index_copy_(0, rows, sampling.first_tokens())
        return TorchStep(outputs, step.sampled_rows, sampling)

    def _with_tokens(self, batch: Sequence[BatchRow]) -> list[BatchRow]:
        """Wait for the tokens that are awaited."""
        chosen = [] if self._chosen is None else self._chosen.tolist()
        return [
            row
            if row.awaited_row is None
            else replace(row, token_ids=[chosen[row.awaited_row]], awaited_row=None)
            for row in batch
        ]


@dataclass(frozen=True, slots=True)
class TorchStep:
    """Implements `PendingStep`.

    Args:
        outputs: one for each row; those that are sampled come with the sampling.
        sampled_rows: indices of the rows that are sampled.
        sampling: of these; None where there are none.
    """

    outputs: list[RowOutput | RowFault]
    sampled_rows: Sequence[int]
    sampling: Sampling | None

    def result(self) -> list[RowOutput | RowFault]:
        """Wait for the step; see `PendingStep.result`."""
        outputs = list(self.outputs)
        if self.sampling is not None:
            with torch.inference_mode():
                sampled, differing = self.sampling.wait()
            for place, (index, output) in enumerate(zip(self.sampled_rows, sampled, strict=True)):
                outputs[index] = output
                if place in differing and isinstance(output, RowOutput):
                    outputs[index] = replace(output, is_late=True)
        return outputs
