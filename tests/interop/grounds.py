"""The servers on which scenarios are run, with the answers that are right there."""

from __future__ import annotations

import copy
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from headrace_server.text.seeds import Seeds
from tests.interop.answers import join
from tests.interop.checks import parse
from tests.interop.clients import CLIENTS
from tests.interop.runner import Runner, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.interop.answers import Answer
    from tests.interop.routes import Route, Way
    from tests.interop.scenarios import Step

REFERENCE = CLIENTS[0]
_SEED = "20"
# Every server wants it of every call but those of health.
API_KEY = "the-key-of-interop"
# The flags of the servers that scenarios name.
SERVERS: Mapping[str, tuple[str, ...]] = {
    "standard": (),
    "narrow": ("--max-num-seqs", "1", "--max-queued-requests", "1"),
    # For programs, which cannot ask for a seed: those that the server draws are known.
    "program": ("--seed", _SEED),
}
# What the narrow one takes.
NUM_OF_FULL = 2
# So much of an answer that will be cut is compared.
_BEGINNING_TOKENS = 100
_ENDLESS = {"text": "Once", "sampling": {"seed": "0"}, "stopping": {"ignoreEndOfText": True}}


class Ground:
    """A server with the way to it, and the answers that the reference client gets there.

    Args:
        way: to the server.
        reference: the runner of the reference client on this way.
        answers: those that are known from this or another way, by their requests.
    """

    def __init__(self, way: Way, reference: Runner, answers: dict[str, Answer]) -> None:
        self.way = way
        self._reference = reference
        self._answers = answers

    async def alone(self, step: Step) -> list[Answer | None]:
        """The answer that each call of a step has when nothing else is asked for."""
        send = step.send
        if step.sees.answer is None:
            return [None] * step.num_calls
        requests = send.get("requests") or [send["request"]] * step.num_calls
        return [await self._answer(request, step) for request in requests]

    async def _answer(self, request: dict[str, Any], step: Step) -> Answer:
        if step.sees.answer == "begun":
            request = copy.deepcopy(request)
            request["stopping"]["maxOutputTokens"] = _BEGINNING_TOKENS
        key = repr(request)
        if key not in self._answers:
            line = {"id": "alone", "method": "Generate", "request": request}
            (call,) = (await self._reference.ask(line))["calls"]
            if call["code"] != "OK":
                raise AssertionError(f"the reference client got {call}")
            self._answers[key] = join(parse(call["responses"], "Generate"))
        return self._answers[key]

    def num_answers(self) -> int:
        """The number of answers that have ended, for each of which the server has drawn a seed."""
        return len(self._ended())

    async def last_answer(self, number: int) -> dict[str, Any]:
        """Wait until so many answers have ended, and return the line of the last in the log."""
        await self.way.server.until(lambda: self.num_answers() >= number)
        return self._ended()[-1]

    def _ended(self) -> list[dict[str, Any]]:
        return [call for call in self.way.server.calls if "output_tokens" in call]

    async def next_answer(self, prompt: str, num_tokens: int) -> str:
        """The text that the server of the programs answers to the call after this one."""
        seeds = Seeds(int(_SEED))
        # One is drawn for the reference, which does not use it.
        for _ in range(self.num_answers() + 1):
            seeds.draw()
        request = {
            "chat": {"messages": [{"role": "ROLE_USER", "content": prompt}]},
            "stopping": {"maxOutputTokens": num_tokens},
            "sampling": {"seed": str(seeds.draw())},
        }
        num_before = self.num_answers()
        line = {"id": "next", "method": "Generate", "request": request}
        (call,) = (await self._reference.ask(line))["calls"]
        await self.last_answer(num_before + 1)
        return join(parse(call["responses"], "Generate")).candidates[0].text


@asynccontextmanager
async def open_grounds(
    route: Route, answers: dict[str, Answer]
) -> AsyncIterator[dict[str, Ground]]:
    """Start the servers that the scenarios name, at the end of a route."""
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(open_ground(route, answers, *flags))
            for name, flags in SERVERS.items()
        }


@asynccontextmanager
async def open_ground(
    route: Route, answers: dict[str, Answer], *flags: object
) -> AsyncIterator[Ground]:
    """Start a server with these flags at the end of a route."""
    async with (
        route.open("--api-key", API_KEY, *flags) as way,
        running(REFERENCE, way, "--api-key", API_KEY) as reference,
    ):
        yield Ground(way, reference, answers)


@asynccontextmanager
async def full(way: Way) -> AsyncIterator[None]:
    """Hold all places of the narrow server by a client that is killed afterwards."""
    async with running(REFERENCE, way, "--api-key", API_KEY) as filler:
        await filler.send(
            {"id": "full", "method": "Generate", "request": _ENDLESS, "count": NUM_OF_FULL}
        )
        await way.server.metrics_when(
            lambda told: told["sequences_running"] == told["sequences_waiting"] == 1
        )
        yield
