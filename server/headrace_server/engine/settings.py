"""What an engine process is told when it starts; one frame, so all of it is plain data."""

from __future__ import annotations

from typing import Literal

import msgspec


class SimulatedSettings(msgspec.Struct, frozen=True):
    """The behaviour of the simulated model.

    Args:
        step_seconds: how long a step takes.
        load_seconds: how long loading takes.
        context_length: largest number of tokens of prompt and output together.
        faults: whether the fault tokens of the simulated tokenizer act, see
            `engine.simulated_runner`.
    """

    step_seconds: float = 0.0
    load_seconds: float = 0.0
    context_length: int = 8192
    faults: bool = False


class EngineSettings(msgspec.Struct, frozen=True):
    """The settings of one engine.

    Args:
        runner: which model runner to load.
        model: a model directory, a GGUF file, a Hub id, or ``default`` for the
            embedded model.
        device: a torch device, such as ``cpu`` or ``cuda``, or ``auto`` for the GPU where
            there is one.
        dtype: ``auto`` (fp16 weights with fp32 activations on a CPU, bf16 on a
            GPU), ``float32``, ``bfloat16`` or ``float16``.
        quantization: ``auto`` (fp16 on a CPU where `dtype` is auto, otherwise none), ``none``,
            ``fp16``, ``int8`` or ``q4``; the last two in groups of 32 weights.
        num_threads: threads of the model; None takes the machine's cores.
        max_context_length: caps the context length of the model; None keeps it.
        max_num_sequences: most sequences in one step.
        max_num_batched_tokens: token budget of one step; None suits the device, see
            `engine.limits`.
        max_prefill_chunk: most prompt tokens, of all sequences together, in a step in which
            others decode, so that they are not held up; None suits the device.
        kv_cache_bytes: size of the KV cache; None suits the device, see `models.kv_cache`.
        block_size: tokens in a KV block.
        prefix_cache: whether a prompt finds in the KV cache what others have computed.
        log_level: see `telemetry.set_up_logging`.
        log_format: see `telemetry.set_up_logging`.
        simulated: used by the simulated runner only.
    """

    runner: Literal["torch", "simulated"] = "torch"
    model: str = "default"
    device: str = "auto"
    dtype: str = "auto"
    quantization: str = "auto"
    num_threads: int | None = None
    max_context_length: int | None = None
    max_num_sequences: int = 64
    max_num_batched_tokens: int | None = None
    max_prefill_chunk: int | None = None
    kv_cache_bytes: int | None = None
    block_size: int = 16
    prefix_cache: bool = True
    log_level: str = "info"
    log_format: str = "auto"
    simulated: SimulatedSettings = SimulatedSettings()
