"""The servers on which scenarios are run."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop.oracle import REFERENCE
from tests.interop.runner import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.interop.oracle import Oracle
    from tests.interop.routes import Route, Way

# Every server wants it of every call but those of health.
API_KEY = "the-key-of-interop"
# What the programs' server draws its seeds from.
SEED = 20
# The flags of the servers that scenarios name.
SERVERS: Mapping[str, tuple[object, ...]] = {
    "standard": (),
    "narrow": ("--max-num-seqs", 1, "--max-queued-requests", 1),
    # For programs, which cannot ask for a seed: those that the server draws are known.
    "program": ("--seed", SEED),
}
# What the narrow one takes.
NUM_OF_FULL = 2
_ENDLESS = {"text": "Once", "sampling": {"seed": "0"}, "stopping": {"ignoreEndOfText": True}}


@dataclass(frozen=True)
class Ground:
    """A server with the way to it, and who knows what it must answer."""

    route: Route
    way: Way
    oracle: Oracle


@asynccontextmanager
async def open_grounds(route: Route, oracle: Oracle) -> AsyncIterator[dict[str, Ground]]:
    """Start the servers that the scenarios name, at the end of a route."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(open_ground(route, oracle, *flags))
            for name, flags in SERVERS.items()
        }


@asynccontextmanager
async def open_ground(route: Route, oracle: Oracle, *flags: object) -> AsyncIterator[Ground]:
    """Start a server with these flags at the end of a route."""
    async with route.open("--api-key", API_KEY, *flags) as way:
        yield Ground(route, way, oracle)


@asynccontextmanager
async def full(way: Way) -> AsyncIterator[None]:
    """Hold all places of the narrow server by a client that is killed afterwards."""
    line = {"id": "full", "method": "Generate", "request": _ENDLESS, "count": NUM_OF_FULL}
    async with running(REFERENCE, way, "--api-key", API_KEY) as filler:
        await filler.send(line)
        await way.server.metrics_when(
            lambda told: told["sequences_running"] == told["sequences_waiting"] == 1
        )
        yield
