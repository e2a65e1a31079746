"""A model runner without a model: answers that are a pure function of what lies in the KV blocks.

It keeps the token ids themselves where a model keeps keys and values, reads the whole context
back from the blocks, and derives the next token from that. A wrong block, a block held
twice or a wrong position changes the answer, as it would with a real model.

The vocabulary is that of `simulated_vocabulary`; `simulated_model/` holds its tokenizer. When
faults are on, the fault tokens act as soon as a step computes them.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headrace_server.engine.model_runner import (
    ModelDescription,
    ModelLoadError,
    RowFault,
    RowOutput,
)
from headrace_server.engine.simulated_choice import choose_token, token_logprobs
from headrace_server.engine.simulated_vocabulary import (
    FAULT_EXIT,
    FAULT_HANG,
    FAULT_NAN,
    FAULT_RAISE,
    VOCABULARY_SIZE,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from headrace_server.engine.logprobs import TokenLogprobs
    from headrace_server.engine.model_runner import BatchRow, ReportProgress
    from headrace_server.engine.settings import EngineSettings, SimulatedSettings

MODEL_DIRECTORY = Path(__file__).parent / "simulated_model"

# Without a size given, the KV cache holds so many contexts of full length.
DEFAULT_NUM_CONTEXTS = 16

_LOAD_PARTS = 10


class SimulatedRunner:
    """Implements `ModelRunner`; `load` takes the time that the settings say."""

    def __init__(self, description: ModelDescription, settings: SimulatedSettings) -> None:
        self._description = description
        self._settings = settings
        self._slots = np.full((description.num_blocks, description.block_size), -1, np.int32)

    @classmethod
    def load(cls, settings: EngineSettings, report_progress: ReportProgress) -> SimulatedRunner:
        """Make a runner.

        Raises:
            ModelLoadError: the KV cache does not hold a block.
        """
        simulated = settings.simulated
        for part in range(_LOAD_PARTS):
            report_progress("loading the simulated model", part / _LOAD_PARTS)
            time.sleep(simulated.load_seconds / _LOAD_PARTS)
        context_length = min(
            simulated.context_length, settings.max_context_length or simulated.context_length
        )
        block_bytes = settings.block_size * np.dtype(np.int32).itemsize
        num_blocks = -(-context_length // settings.block_size) * DEFAULT_NUM_CONTEXTS
        if settings.kv_cache_bytes is not None:
            num_blocks = settings.kv_cache_bytes // block_bytes
        if num_blocks == 0:
            raise ModelLoadError(
                f"The KV cache of {settings.kv_cache_bytes} bytes does not hold one block; give it "
                f"at least {block_bytes} bytes."
            )
        description = ModelDescription(
            directory=str(MODEL_DIRECTORY),
            context_length=context_length,
            vocabulary_size=VOCABULARY_SIZE,
            num_blocks=num_blocks,
            block_size=settings.block_size,
            device_type="cpu",
        )
        return cls(description, simulated)

    @property
    def description(self) -> ModelDescription:
        """The facts of the simulated model."""
        return self._description

    def forward(self, batch: Sequence[BatchRow]) -> list[RowOutput | RowFault]:
        """Take the step's time, store the tokens and choose the next ones."""
        time.sleep(self._settings.step_seconds)
        return [self._compute(row) for row in batch]

    def _compute(self, row: BatchRow) -> RowOutput | RowFault:
        if self._settings.faults:
            _act_on_faults(row.token_ids)
        end = row.start + len(row.token_ids)
        positions = np.arange(row.start, end)
        block_ids = np.asarray(row.block_ids)
        block_size = self._description.block_size
        self._slots[block_ids[positions // block_size], positions % block_size] = row.token_ids
        if row.sampling is None and row.prompt_logprobs is None:
            return RowOutput(None)
        context = self._slots[block_ids].reshape(-1)[:end]
        if self._settings.faults and FAULT_NAN in context:
            return RowFault.NOT_A_NUMBER
        prompt_logprobs = _prompt_logprobs(context, row)
        if row.sampling is None:
            return RowOutput(None, prompt_logprobs=prompt_logprobs)
        choice = choose_token(context, row.sampling)
        num_top = row.sampling.num_top_logprobs
        if isinstance(choice, RowFault):
            return choice
        logprobs = None if num_top is None else token_logprobs(context, choice, num_top)
        return RowOutput(choice, logprobs, prompt_logprobs)


def _prompt_logprobs(context: npt.NDArray[np.int32], row: BatchRow) -> list[TokenLogprobs]:
    wanted = row.prompt_logprobs
    if wanted is None:
        return []
    return [
        token_logprobs(context[: row.start + 1 + i], target_id, wanted.num_top)
        for i, target_id in enumerate(wanted.target_token_ids)
    ]


def _act_on_faults(token_ids: Sequence[int]) -> None:
    if FAULT_EXIT in token_ids:
        os.kill(os.getpid(), signal.SIGKILL)
    while FAULT_HANG in token_ids:
        time.sleep(3600)
    if FAULT_RAISE in token_ids:
        raise RuntimeError("fault on demand")
