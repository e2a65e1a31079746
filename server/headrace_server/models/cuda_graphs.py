"""Decode steps as CUDA graphs: all kernels of a step are launched at once, as recorded."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from headrace_server.engine.model_runner import BatchRow
from headrace_server.models.decoder import Decoder
from headrace_server.models.operations.fused_gpu import (
    FusedGpuOperations,
    PagedStep,
    block_tables,
)
from headrace_server.models.step_inputs import build_step_inputs
from headrace_server.models.transfers import to_device
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace_server.engine.model_runner import ReportProgress
    from headrace_server.models.kv_cache import KvCache
    from headrace_server.models.loaded_model import LoadedModel
    from headrace_server.models.step_inputs import StepInputs

_log = logging.getLogger("headrace_server.models")


class Recorder(Protocol):
    """Records what a function launches."""

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        """Run `compute`, and return what runs the same kernels on the same memory again."""


class CudaRecorder:
    """Implements `Recorder`. All graphs work in the same memory: one runs at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], None]) -> Callable[[], None]:
        """See `Recorder`."""
        # What is made at a first call, such as compiled kernels, cannot be recorded.
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            compute()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            compute()
        replay: Callable[[], None] = graph.replay
        return replay


@dataclass(frozen=True, slots=True)
class _Buffers:
    """What the graphs read and write; rows from 0 on are used.

    Args:
        step: of decode rows alone.
        token_ids: int64 [rows].
        indices: int64 [rows], 0, 1, 2, ….
        logits: float32 [rows, vocabulary].
    """

    step: PagedStep
    token_ids: torch.Tensor
    indices: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def of(
        cls, num_rows: int, num_blocks: int, vocabulary_size: int, device: torch.device
    ) -> _Buffers:
        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        return cls(
            step=PagedStep(
                positions=zeros(num_rows),
                slots=zeros(num_rows).fill_(-1),
                block_tables=zeros(num_rows, num_blocks, dtype=torch.int32),
                lengths=zeros(num_rows, dtype=torch.int32),
                tiles=zeros(0, 4, dtype=torch.int32),
            ),
            token_ids=zeros(num_rows),
            indices=torch.arange(num_rows, device=device),
            logits=zeros(num_rows, vocabulary_size, dtype=torch.float32),
        )

    def first(self, num_rows: int) -> _Buffers:
        """The part of the first rows, in the same memory."""
        step = self.step
        return _Buffers(
            step=PagedStep(
                positions=step.positions[:num_rows],
                slots=step.slots[:num_rows],
                block_tables=step.block_tables[:num_rows],
                lengths=step.lengths[:num_rows],
                tiles=step.tiles,
            ),
            token_ids=self.token_ids[:num_rows],
            indices=self.indices[:num_rows],
            logits=self.logits[:num_rows],
        )

    def fill(self, step: StepInputs, block_size: int) -> None:
        """Take a step of at most as many rows; the others pad it, and store and read nothing."""
        num_rows = len(step.rows)
        tables = to_device(
            torch.from_numpy(block_tables(step.rows, block_size)), self.token_ids.device
        )
        self.step.block_tables[:num_rows, : tables.shape[1]].copy_(tables)
        self.token_ids[:num_rows].copy_(step.token_ids)
        self.step.positions[:num_rows].copy_(step.positions)
        self.step.slots[:num_rows].copy_(step.slots)
        self.step.slots[num_rows:].fill_(-1)
        self.step.lengths[:num_rows].copy_(step.positions).add_(1)
        self.step.lengths[num_rows:].zero_()


class GraphedDecoder:
    """Implements `StepDecoder`: replays steps of decode rows alone, and computes the others.

    Args:
        decoder: whose operations are `FusedGpuOperations`.
        cache: the one that all steps store in.
        num_blocks: most blocks of a sequence.
        max_rows: most rows of a step.
    """

    def __init__(self, decoder: Decoder, cache: KvCache, num_blocks: int, max_rows: int) -> None:
        self._decoder = decoder
        self._cache = cache
        self._buffers = _Buffers.of(
            max_rows, num_blocks, len(decoder.embedding), decoder.embedding.device
        )
        self._replays: Mapping[int, Callable[[], None]] = {}

    def record(self, recorder: Recorder, report_progress: ReportProgress) -> None:
        """Record a graph for each number of rows of `graph_sizes`, as long as there is memory."""
        sizes = graph_sizes(len(self._buffers.token_ids))
        replays: dict[int, Callable[[], None]] = {}
        # The largest first, so that the smaller ones find memory that is large enough.
        for index, size in enumerate(reversed(sizes)):
            report_progress("recording decode steps", index / len(sizes))
            try:
                with torch.inference_mode():
                    replays[size] = recorder(self._compute(size))
            except torch.OutOfMemoryError:
                log_event(_log, logging.WARNING, "no memory to record a decode step", num_rows=size)
        self._replays = dict(sorted(replays.items()))

    def logits(self, step: StepInputs, cache: KvCache) -> torch.Tensor:
        """Compute a step; see `StepDecoder.logits`. A replay overwrites what the last returned."""
        num_rows = len(step.rows)
        is_decode = num_rows == len(step.token_ids) == len(step.logit_tokens)
        size = next((size for size in self._replays if size >= num_rows), None)
        if not is_decode or size is None:
            return self._decoder.logits(step, cache)
        buffers = self._buffers.first(size)
        buffers.fill(step, cache.block_size)
        self._replays[size]()
        return buffers.logits[:num_rows]

    def _compute(self, size: int) -> Callable[[], None]:
        buffers = self._buffers.first(size)
        operations = self._decoder.operations
        assert isinstance(operations, FusedGpuOperations)  # as `GraphedDecoder` demands
        bound = operations.bind_paged(buffers.step)

        def compute() -> None:
            logits = self._decoder.compute(bound, buffers.token_ids, buffers.indices, self._cache)
            buffers.logits.copy_(logits)

        return compute


def graph_sizes(max_rows: int) -> Sequence[int]:
    """Return the numbers of rows to record, rising; a step is padded to the next of them."""
    sizes = [size for size in (1, 2, 4) if size < max_rows]
    return [*sizes, *range(8, max_rows, 8), max_rows]


def record_steps(
    loaded: LoadedModel, cache: KvCache, max_rows: int, report_progress: ReportProgress
) -> GraphedDecoder:
    """Wrap the own decoder of a model on a GPU, with its kernels compiled and its steps recorded.

    Args:
        loaded: the model; its operations are `FusedGpuOperations`.
        cache: of the model.
        max_rows: most rows of a step.
        report_progress: told of each size.
    """
    decoder = loaded.decoder
    assert isinstance(decoder, Decoder)  # as its kind says
    num_blocks = -(-loaded.context_length // cache.block_size)
    graphed = GraphedDecoder(decoder, cache, num_blocks, max_rows)
    # The kernels of prompts; those of answers are compiled as they are recorded.
    report_progress("compiling kernels")
    device = decoder.embedding.device
    torch.cuda.set_device(device)  # where Triton launches
    num_tokens = min(2, cache.block_size)
    prompt = BatchRow(0, (0,) * num_tokens, start=0, block_ids=(0,), sampling=None)
    with torch.inference_mode():
        graphed.logits(build_step_inputs([prompt], cache.block_size, device), cache)
    graphed.record(CudaRecorder(), report_progress)
    return graphed
