"""Loads a model and runs its steps: the ModelRunner on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace_server.engine.limits import limits_for
from headrace_server.engine.model_runner import (
    BatchRow,
    ModelDescription,
    ModelRunner,
    RowFault,
    RowOutput,
    RowSampling,
)
from headrace_server.models import kv_cache
from headrace_server.models.decoder import Decoder
from headrace_server.models.gpu import has_gpu_kernels
from headrace_server.models.load import load_model
from headrace_server.models.overlapping_runner import OverlappingTorchRunner
from headrace_server.models.precision import choose_precision
from headrace_server.models.prompt_pieces import cut_batch, join_outputs
from headrace_server.models.resolve import resolve_model
from headrace_server.models.sampling.logprobs import prompt_logprobs
from headrace_server.models.sampling.sampler import sample
from headrace_server.models.step_inputs import build_step_inputs
from headrace_server.models.step_memory import step_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace_server.engine.model_runner import ReportProgress
    from headrace_server.engine.settings import EngineSettings
    from headrace_server.models.kv_cache import KvCache
    from headrace_server.models.loaded_model import LoadedModel, StepDecoder
    from headrace_server.models.precision import Precision
    from headrace_server.models.step_inputs import StepInputs


def load(settings: EngineSettings, report_progress: ReportProgress) -> ModelRunner:
    """Load the model of `settings`; on a GPU steps overlap with what the engine does.

    Raises:
        ModelLoadError: the model cannot be served.
    """
    runner = load_plain(settings, report_progress)
    is_gpu = runner.description.device_type == "cuda"
    return OverlappingTorchRunner(runner) if is_gpu else runner


def load_plain(settings: EngineSettings, report_progress: ReportProgress) -> TorchRunner:
    """Find, convert and load the model of `settings` and take its KV cache.

    Raises:
        ModelLoadError: the model cannot be served.
    """
    report_progress("preparing kernels")
    choose_precision(settings.device, settings.dtype, settings.quantization)
    if settings.num_threads is not None:
        torch.set_num_threads(settings.num_threads)
    directory = resolve_model(settings.model, report_progress)
    loaded = load_model(directory, settings, report_progress)
    return start_runner(loaded, directory, settings, report_progress)


def start_runner(
    loaded: LoadedModel,
    directory: Path,
    settings: EngineSettings,
    report_progress: ReportProgress,
) -> TorchRunner:
    """Take the KV cache of a loaded model and compute a first step.

    Raises:
        ModelLoadError: there is no room for the KV cache.
    """
    report_progress("taking KV cache")
    has_kernels = has_gpu_kernels(loaded.precision.device, loaded.kv_shape.head_dim)
    records = loaded.kind == "own" and has_kernels
    cache = kv_cache.allocate(
        loaded.kv_shape,
        loaded.precision,
        settings,
        loaded.context_length,
        _reserved_bytes(loaded, settings) if records else 0,
    )
    description = ModelDescription(
        directory=str(directory),
        context_length=loaded.context_length,
        vocabulary_size=loaded.vocabulary_size,
        num_blocks=cache.num_blocks,
        block_size=cache.block_size,
        device_type=loaded.precision.device.type,
    )
    decoder = loaded.decoder
    if records:
        # Imported where it is needed, for it compiles for GPUs.
        from headrace_server.models.cuda_graphs import record_steps

        decoder = record_steps(loaded, cache, settings.max_num_sequences, report_progress)
    runner = TorchRunner(decoder, cache, loaded.precision, description)
    report_progress("warming up")
    runner.forward([_WARM_UP_ROW])
    return runner


def _reserved_bytes(loaded: LoadedModel, settings: EngineSettings) -> int:
    """Estimate what steps and their graphs take of a GPU."""
    from headrace_server.models.cuda_graphs import graph_sizes

    assert isinstance(loaded.decoder, Decoder)  # as its kind says
    limits = limits_for(settings, loaded.precision.device.type, loaded.vocabulary_size)
    return step_bytes(loaded.decoder, limits, len(graph_sizes(limits.max_num_sequences)))


# The first products of a process start its threads; no request should wait for that.
_WARM_UP_ROW = BatchRow(
    sequence_id=0,
    token_ids=(0,),
    start=0,
    block_ids=(0,),
    sampling=RowSampling(
        position=1, temperature=0.0, top_k=None, top_p=1.0, min_p=0.0, seed=0, banned_token_ids=()
    ),
)


class TorchRunner:
    """A decoder with its KV cache; a `ModelRunner`."""

    def __init__(
        self,
        decoder: StepDecoder,
        cache: KvCache,
        precision: Precision,
        description: ModelDescription,
    ) -> None:
        self._decoder = decoder
        self._cache = cache
        self._precision = precision
        self._description = description

    @property
    def description(self) -> ModelDescription:
        """The facts of the model."""
        return self._description

    def forward(self, batch: Sequence[BatchRow]) -> list[RowOutput | RowFault]:
        """Compute a step; see `ModelRunner.forward`."""
        outputs: list[RowOutput | RowFault] = [RowOutput(None)] * len(batch)
        with torch.inference_mode():
            for pieces in cut_batch(batch, self._description.vocabulary_size):
                computed = self._compute([piece.row for piece in pieces])
                for piece, output in zip(pieces, computed, strict=True):
                    outputs[piece.index] = join_outputs(outputs[piece.index], output)
        return outputs

    def launch(
        self, rows: Sequence[BatchRow], chosen: torch.Tensor | None = None
    ) -> tuple[StepInputs, torch.Tensor]:
        """Have the logits of a step computed, float32 [logit tokens, vocabulary].

        Args:
            rows: without log probabilities of prompts that `cut_batch` would cut.
            chosen: see `build_step_inputs`.
        """
        block_size = self._description.block_size
        step = build_step_inputs(rows, block_size, self._precision.device, chosen)
        return step, self._decoder.logits(step, self._cache)

    def _compute(self, rows: Sequence[BatchRow]) -> list[RowOutput | RowFault]:
        step, logits = self.launch(rows)
        outputs: list[RowOutput | RowFault] = [RowOutput(None)] * len(rows)
        if step.prompts:
            told = prompt_logprobs(logits[step.prompt_logits], step.prompts)
            for index, output in zip(step.prompt_rows, told, strict=True):
                outputs[index] = output
        if step.samplings:
            sampled = sample(
                logits[step.sampled_logits] if step.prompts else logits, step.samplings
            )
            for index, output in zip(step.sampled_rows, sampled, strict=True):
                outputs[index] = join_outputs(outputs[index], output)
        return outputs
