"""`transformers serve` with continuous batching."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from comparison.peer import Launch, Peer

if TYPE_CHECKING:
    from pathlib import Path

    from comparison.environment import Environment
    from comparison.peer import Ports, Sizing

_PAGE_TOKENS = 256  # its default
# With its default of 8,192 the mask of attention alone takes more than a gigabyte.
_MAX_BATCH_TOKENS = 512


def transformers_serve(environment: Environment, version: str, directory: Path) -> Peer:
    """The server in fp32, with pages for as many streams as there will be."""

    def launch(sizing: Sizing, ports: Ports) -> Launch:
        num_pages = sizing.num_streams * math.ceil((sizing.context_tokens + 1) / _PAGE_TOKENS)
        command = (
            *(str(environment.program("transformers")), "serve", str(directory)),
            *("--host", "127.0.0.1", "--port", str(ports.http), "--device", "cpu"),
            *("--dtype", "float32", "--continuous-batching", "--log-level", "error"),
            *("--cb-num-blocks", str(num_pages), "--cb-max-batch-tokens", str(_MAX_BATCH_TOKENS)),
        )
        return Launch((command,), ready_path="/health", environment={"HF_HUB_OFFLINE": "1"})

    # No token has the id -1, so the end of the text ends nothing.
    generation = {"do_sample": False, "eos_token_id": -1}
    return Peer(
        name="transformers serve",
        version=version,
        weights="fp32",
        fields={"model": str(directory), "generation_config": json.dumps(generation)},
        launch=launch,
    )
