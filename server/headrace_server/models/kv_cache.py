"""The KV cache: keys and values of every layer, in blocks of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.memory import available_bytes, gibibytes

if TYPE_CHECKING:
    from headrace_server.engine.settings import EngineSettings
    from headrace_server.models.precision import Precision

_CPU_MEMORY_SHARE = 0.5
_CPU_DEFAULT_LIMIT_BYTES = 2 << 30  # a machine has other work too; `kv_cache_bytes` raises it
_GPU_MEMORY_SHARE = 0.9


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
    shape: KvShape, precision: Precision, settings: EngineSettings, context_length: int
) -> KvCache:
    """Take the KV cache. Its content is arbitrary; on a CPU, memory is taken as it is written to.

    Raises:
        ModelLoadError: there is no room for one sequence of the length that was asked for.
    """
    block_size = settings.block_size
    num_elements = 2 * shape.num_layers * shape.num_kv_heads * shape.head_dim * block_size
    block_bytes = num_elements * precision.kv.itemsize
    num_blocks = _num_blocks(block_bytes, precision.device, settings, context_length)
    try:
        return take_blocks(shape, precision, num_blocks, block_size)
    except RuntimeError as error:
        raise ModelLoadError(
            f"{gibibytes(num_blocks * block_bytes)} for the KV cache cannot be had; "
            "choose less with --kv-cache-bytes."
        ) from error


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


def _num_blocks(
    block_bytes: int, device: torch.device, settings: EngineSettings, context_length: int
) -> int:
    blocks_per_context = -(-context_length // settings.block_size)
    most_useful = blocks_per_context * settings.max_num_sequences
    available = available_bytes(device)
    if settings.kv_cache_bytes is not None:
        budget = settings.kv_cache_bytes
        if budget > available:
            raise ModelLoadError(
                f"The KV cache of {gibibytes(budget)} is more than the {gibibytes(available)} "
                "that are free; choose less with --kv-cache-bytes."
            )
        num_blocks = budget // block_bytes
    elif device.type == "cpu":
        limit = max(_CPU_DEFAULT_LIMIT_BYTES, blocks_per_context * block_bytes)
        budget = min(int(available * _CPU_MEMORY_SHARE), limit)
        num_blocks = min(budget // block_bytes, most_useful)
    else:
        budget = int(available * _GPU_MEMORY_SHARE)
        num_blocks = min(budget // block_bytes, most_useful)
    # A context that nobody asked for is shortened to the memory by the engine.
    needed_blocks = 1 if settings.max_context_length is None else blocks_per_context
    if num_blocks < needed_blocks:
        needed = gibibytes(needed_blocks * block_bytes)
        raise ModelLoadError(
            f"The KV cache of {gibibytes(budget)} holds {num_blocks * settings.block_size} "
            f"tokens, less than one sequence of {context_length}; choose a smaller "
            f"--max-model-len, or at least {needed} with --kv-cache-bytes."
        )
    return int(num_blocks)
