"""What the fronts carry when the engine costs nothing: Headrace with its simulated engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from comparison import metric
from comparison.grpc_client import grpc_client
from comparison.http_client import http_client
from comparison.load import run_load
from comparison.metric import Metric
from comparison.peers.headrace import headrace_with

if TYPE_CHECKING:
    from comparison.load import Asker
    from comparison.peer import Peer
    from comparison.server import RunningServer

TOKENS_PER_MESSAGE: Final = Metric(
    "tokens_per_message", "tokens/message", 1.0, 1, is_better_high=False
)

METRICS: Final = (metric.TOKENS_PER_SECOND, TOKENS_PER_MESSAGE)

MAX_STREAMS: Final = 256
_PROMPT = "transport"
_TOTAL_TOKENS = 32_768
_MOST_TOKENS_OF_ANSWER = 2048


def simulated_peer() -> Peer:
    """A server whose steps take no time."""
    flags = ("--backend", "simulated", "--max-num-seqs", str(MAX_STREAMS))
    return headrace_with("simulated", flags, weights="none")


async def measure_transport(
    server: RunningServer, peer: Peer, num_streams: int
) -> dict[str, dict[str, float]]:
    """The figures of gRPC and of HTTP with this many streams."""
    async with (
        grpc_client(server.grpc_address) as over_grpc,
        http_client(server.url, peer.fields) as over_http,
    ):
        return {
            "gRPC": await _measure(over_grpc, num_streams),
            "SSE": await _measure(over_http, num_streams),
        }


async def _measure(asker: Asker, num_streams: int) -> dict[str, float]:
    num_tokens = min(_TOTAL_TOKENS // num_streams, _MOST_TOKENS_OF_ANSWER)
    num_requests = _TOTAL_TOKENS // num_streams // num_tokens
    num_prompt_tokens = (await asker.ask(_PROMPT, 4)).num_prompt_tokens
    streams = [[_PROMPT] * num_requests] * num_streams
    load = await run_load(asker, streams, num_prompt_tokens, num_tokens)
    num_messages = sum(len(answer.piece_seconds) for answer in load.answers)
    rate = load.figures()[metric.TOKENS_PER_SECOND.key]
    return {
        metric.TOKENS_PER_SECOND.key: rate,
        TOKENS_PER_MESSAGE.key: rate * load.wall_seconds / num_messages,
    }
