"""The KV cache: keys and values of every layer, in blocks of tokens."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.memory import available_bytes, gibibytes
from headrace_server.telemetry import log_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace_server.engine.settings import EngineSettings
    from headrace_server.models.precision import Precision

# Cached prompts fill whatever there is, and a machine has other work too. In tokens, so that it
# grows with the model: 270 MiB of SmolLM2-135M, 1.5 GiB of a Llama 3 8B. They hold 64 requests of
# 192 tokens, or 12 of 1,024; what does not fit waits, and `kv_cache_bytes` raises it.
_CPU_DEFAULT_TOKENS = 12_288
_CPU_MEMORY_SHARE = 0.5
_GPU_MEMORY_SHARE = 0.9

_log = logging.getLogger("headrace_server.models")


class KvShape(Protocol):
    """What every layer stores for a token: a key and a value for each KV head."""

    @property
    def num_layers(self) -> int:
        """Layers of the model."""

    @property
    def num_kv_heads(self) -> int:
        """KV heads of a layer."""

    @property
    def head_dim(self) -> int:
        """Numbers of a key, and of a value."""


@dataclass(frozen=True, slots=True)
class LayerCache:
    """The KV cache of one layer.

    A block's keys lie with their tokens as neighbours, so that one query meets many keys in one
    vector operation; its values lie with the numbers of a token as neighbours.

    Args:
        keys: [blocks, kv_heads, head_dim, block_size].
        values: [blocks, kv_heads, block_size, head_dim].
    """

    keys: torch.Tensor
    values: torch.Tensor


@dataclass(frozen=True, slots=True)
class KvCache:
    """The KV cache of all layers, and how many blocks of how many tokens it has."""

    layers: tuple[LayerCache, ...]
    num_blocks: int
    block_size: int


def allocate(
    shape: KvShape,
    precision: Precision,
    settings: EngineSettings,
    context_length: int,
    reserved_bytes: int = 0,
) -> KvCache:
    """Take the KV cache. Its content is arbitrary; on a CPU, memory is taken as it is written to.

    Args:
        shape: of the model.
        precision: where, and in which format.
        settings: with the size, or what it is chosen by.
        context_length: most tokens of a sequence.
        reserved_bytes: what is free and needed for steps; a size that is given may take of it.

    Raises:
        ModelLoadError: there is no room for one sequence of the length that was asked for.
    """
    block_size = settings.block_size
    num_elements = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * block_size
    block_bytes = num_elements * precision.kv.itemsize
    size = _choose_size(block_bytes, precision.device, settings, context_length, reserved_bytes)
    try:
        cache = take_blocks(shape, precision, size.num_blocks, block_size)
    except RuntimeError as error:
        raise ModelLoadError(
            f"{gibibytes(size.num_blocks * block_bytes)} for the KV cache cannot be had; "
            "choose less with --kv-cache-bytes."
        ) from error
    log_event(
        _log,
        logging.INFO,
        "KV cache taken",
        size=gibibytes(size.num_blocks * block_bytes),
        tokens=size.num_blocks * block_size,
        reason=size.reason,
        change_with="--kv-cache-bytes",
    )
    return cache


def take_blocks(shape: KvShape, precision: Precision, num_blocks: int, block_size: int) -> KvCache:
    """Take a KV cache of so many blocks.

    Raises:
        RuntimeError: the memory cannot be had.
    """
    heads = (shape.num_layers, num_blocks, shape.num_kv_heads)
    keys, values = (
        torch.empty((*heads, *block_shape), dtype=precision.kv, device=precision.device)
        for block_shape in ((shape.head_dim, block_size), (block_size, shape.head_dim))
    )
    layers = tuple(map(LayerCache, keys.unbind(), values.unbind()))
    return KvCache(layers, num_blocks, block_size)


@dataclass(frozen=True, slots=True)
class _Size:
    """A size of the KV cache.

    Args:
        reason: why it is no larger, in words.
    """

    num_blocks: int
    reason: str


def _choose_size(
    block_bytes: int,
    device: torch.device,
    settings: EngineSettings,
    context_length: int,
    reserved_bytes: int,
) -> _Size:
    blocks_per_context = -(-context_length // settings.block_size)
    available = available_bytes(device)
    if settings.kv_cache_bytes is not None:
        size = _given_size(settings.kv_cache_bytes, block_bytes, available)
    else:
        left = max(available - reserved_bytes, 0)
        size = min(
            _default_sizes(block_bytes, device, settings, blocks_per_context, left),
            key=lambda size: size.num_blocks,
        )
    # A context that nobody asked for is shortened to the memory by the engine.
    needed_blocks = 1 if settings.max_context_length is None else blocks_per_context
    if size.num_blocks < needed_blocks:
        raise ModelLoadError(
            f"The KV cache of {gibibytes(size.num_blocks * block_bytes)} holds "
            f"{size.num_blocks * settings.block_size} tokens, less than one sequence of "
            f"{context_length}; choose a smaller --max-model-len, or at least "
            f"{gibibytes(needed_blocks * block_bytes)} with --kv-cache-bytes."
        )
    return size


def _given_size(given_bytes: int, block_bytes: int, available: int) -> _Size:
    if given_bytes > available:
        raise ModelLoadError(
            f"The KV cache of {gibibytes(given_bytes)} is more than the {gibibytes(available)} "
            "that are free; choose less with --kv-cache-bytes."
        )
    return _Size(given_bytes // block_bytes, "as given")


def _default_sizes(
    block_bytes: int,
    device: torch.device,
    settings: EngineSettings,
    blocks_per_context: int,
    available: int,
) -> Iterator[_Size]:
    """Yield the limits of the default size."""
    is_cpu = device.type == "cpu"
    share = _CPU_MEMORY_SHARE if is_cpu else _GPU_MEMORY_SHARE
    yield _Size(
        blocks_per_context * settings.max_num_sequences, "holds all sequences at full length"
    )
    yield _Size(int(available * share) // block_bytes, f"{share:.0%} of the free memory")
    if is_cpu:
        default_blocks = -(-_CPU_DEFAULT_TOKENS // settings.block_size)
        if default_blocks < blocks_per_context:
            yield _Size(blocks_per_context, "one sequence at full length, the default on CPUs")
        else:
            yield _Size(default_blocks, f"{_CPU_DEFAULT_TOKENS:,} tokens, the default on CPUs")
