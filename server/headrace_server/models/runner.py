"""Loads a model and runs its steps: the ModelRunner on torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from headrace_server.engine.model_runner import (
    BatchRow,
    ModelDescription,
    ModelRunner,
    RowFault,
    RowOutput,
    RowSampling,
)
from headrace_server.models import kv_cache
from headrace_server.models.config import read_config
from headrace_server.models.operations.fused_cpu import fits
from headrace_server.models.precision import choose_precision
from headrace_server.models.resolve import resolve_model
from headrace_server.models.sampler import choose_tokens
from headrace_server.models.step_inputs import build_step_inputs
from headrace_server.models.weights import load_decoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import ReportProgress
    from headrace_server.engine.settings import EngineSettings
    from headrace_server.models.decoder import Decoder
    from headrace_server.models.kv_cache import KvCache
    from headrace_server.models.precision import Precision


def load(settings: EngineSettings, report_progress: ReportProgress) -> ModelRunner:
    """Find, convert and load the model of `settings` and take its KV cache.

    Raises:
        ModelLoadError: the model cannot be served.
    """
    report_progress("preparing kernels")
    wanted = (settings.device, settings.dtype, settings.quantization)
    precision = choose_precision(*wanted)
    if settings.num_threads is not None:
        torch.set_num_threads(settings.num_threads)
    directory = resolve_model(settings.model, report_progress)
    config = read_config(directory)
    if not fits(config, settings.block_size):
        precision = choose_precision(*wanted, kernels_fit=False)
    context_length = min(
        config.context_length, settings.max_context_length or config.context_length
    )
    decoder = load_decoder(directory, config, context_length, precision, report_progress)
    report_progress("taking KV cache")
    cache = kv_cache.allocate(config, precision, settings, context_length)
    description = ModelDescription(
        directory=str(directory),
        context_length=context_length,
        vocabulary_size=config.vocabulary_size,
        num_blocks=cache.num_blocks,
        block_size=cache.block_size,
        device_type=precision.device.type,
    )
    runner = TorchRunner(decoder, cache, precision, description)
    report_progress("warming up")
    runner.forward([_WARM_UP_ROW])
    return runner


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
        decoder: Decoder,
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
        result: list[RowOutput | RowFault] = [RowOutput(None)] * len(batch)
        with torch.inference_mode():
            step = build_step_inputs(batch, self._description.block_size, self._precision.device)
            logits = self._decoder.logits(step, self._cache)
            if step.samplings:
                choices = choose_tokens(logits, step.samplings)
                for index, choice in zip(step.sampled_rows, choices, strict=True):
                    result[index] = choice if isinstance(choice, RowFault) else RowOutput(choice)
        return result
