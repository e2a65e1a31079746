"""What Headrace's fronts cost: the same load over gRPC, over HTTP, and on the engine alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from comparison import metric
from comparison.cell import Cell
from comparison.engine_alone import measure_engine
from comparison.grpc_client import grpc_client
from comparison.metric import Metric

if TYPE_CHECKING:
    from pathlib import Path

    from comparison.parts.context import Context
    from comparison.peer import Peer
    from comparison.prompts import Prompts
    from comparison.server import RunningServer

OF_ENGINE: Final = Metric("of_engine", "% of engine alone", 100.0, 1, is_better_high=True)

METRICS: Final = (metric.TOKENS_PER_SECOND, OF_ENGINE)

ENGINE, GRPC, HTTP = "engine alone", "gRPC", "HTTP, through the gateway"

CELL: Final = Cell(num_streams=16, num_prompt_tokens=64, num_output_tokens=64)


async def measure_fronts(context: Context, server: RunningServer) -> dict[str, float]:
    """Tokens per second of each front of a running server."""
    async with grpc_client(server.grpc_address) as client:
        contexts = {GRPC: replace(context, asker=client), HTTP: context}
        rates = {}
        for front, one in contexts.items():
            await one.warm_up(f"serving cost {front}", CELL.num_streams)
            load, _ = await one.run(f"serving cost {front}", CELL)
            rates[front] = load.figures()[metric.TOKENS_PER_SECOND.key]
    return rates


async def measure_engine_alone(peer: Peer, prompts: Prompts, label: str, log_file: Path) -> float:
    """Tokens per second of the engine, while no server runs."""
    texts = [
        prompts.text(f"{label}/engine/{index}", CELL.num_prompt_tokens)
        for index in range(CELL.num_streams)
    ]
    ids = [prompts.token_ids(text) for text in texts]
    return await measure_engine(peer.flags or (), ids, CELL.num_output_tokens, log_file)
