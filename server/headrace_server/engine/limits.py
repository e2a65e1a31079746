"""How much one step may hold, and how much is good for which device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace_server.engine.model_runner import ModelDescription
    from headrace_server.engine.settings import EngineSettings

# From about 64 tokens on, a CPU takes a time for a step that grows with its tokens, so that a
# larger step gains nothing and makes everyone wait, aborts included. Beside decodes, 32 tokens of
# prompts let a step of eight answers take under three times as long as without.
_CPU_MAX_BATCHED_TOKENS = 256
_CPU_MAX_PREFILL_CHUNK = 32

# A GPU computes thousands of tokens in little more time than one.
_GPU_MAX_BATCHED_TOKENS = 8192
_GPU_MAX_PREFILL_CHUNK = 2048


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """What one step may hold; see `EngineSettings`.

    Args:
        max_prefill_chunk: most prompt tokens, of all sequences together, in a step in which others
            decode.
        vocabulary_size: ids that are not below it are refused, from outside and from the model.
    """

    max_num_sequences: int
    max_num_batched_tokens: int
    max_prefill_chunk: int
    vocabulary_size: int


def choose_limits(settings: EngineSettings, model: ModelDescription) -> SchedulerLimits:
    """Fill in what the settings leave to the device."""
    return limits_for(settings, model.device_type, model.vocabulary_size)


def limits_for(settings: EngineSettings, device_type: str, vocabulary_size: int) -> SchedulerLimits:
    """See `choose_limits`; for a model that is not described yet."""
    is_cpu = device_type == "cpu"
    batched_tokens = _CPU_MAX_BATCHED_TOKENS if is_cpu else _GPU_MAX_BATCHED_TOKENS
    prefill_chunk = _CPU_MAX_PREFILL_CHUNK if is_cpu else _GPU_MAX_PREFILL_CHUNK
    return SchedulerLimits(
        max_num_sequences=settings.max_num_sequences,
        max_num_batched_tokens=(
            settings.max_num_batched_tokens or max(batched_tokens, settings.max_num_sequences)
        ),
        max_prefill_chunk=settings.max_prefill_chunk or prefill_chunk,
        vocabulary_size=vocabulary_size,
    )
