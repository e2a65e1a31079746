"""Runs the scenarios with one client on one route, and says of each how it went."""

from __future__ import annotations

import copy
import dataclasses
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.interop.answers import join
from tests.interop.checks import Asked, parse, problems_of
from tests.interop.clients import CLIENTS
from tests.interop.runner import Runner, RunnerError, running
from tests.interop.scenarios import SCENARIOS
from tests.interop.server import new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from tests.interop.answers import Answer
    from tests.interop.clients import Client
    from tests.interop.routes import Route, Way
    from tests.interop.scenarios import Scenario, Step

REFERENCE = CLIENTS[0]
# So much of an answer that will be cut is compared.
_BEGINNING_TOKENS = 100
_ENDLESS = {"text": "Once", "sampling": {"seed": "0"}, "stopping": {"ignoreEndOfText": True}}
# Every server wants it of every call but those of health.
API_KEY = "the-key-of-interop"
# The flags of the servers that scenarios name.
SERVERS: Mapping[str, tuple[str, ...]] = {
    "standard": (),
    "narrow": ("--max-num-seqs", "1", "--max-queued-requests", "1"),
}
# What the narrow one takes.
_NUM_OF_FULL = 2


@dataclass(frozen=True)
class Result:
    """How a scenario went.

    Args:
        problems: none where it went well.
        unsupported: why the client cannot do it, in its own words.
    """

    scenario: str
    problems: tuple[str, ...] = ()
    unsupported: str | None = None


class Ground:
    """A server with the way to it, and the answers that the reference client gets there.

    Args:
        way: to the server.
        reference: the runner of the reference client on this way.
    """

    def __init__(self, way: Way, reference: Runner) -> None:
        self.way = way
        self._reference = reference
        self._answers: dict[str, Answer] = {}

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


@asynccontextmanager
async def open_grounds(route: Route) -> AsyncIterator[dict[str, Ground]]:
    """Start the servers that the scenarios name, at the end of a route."""
    async with AsyncExitStack() as stack:
        grounds = {}
        for name, flags in SERVERS.items():
            way = await stack.enter_async_context(route.open("--api-key", API_KEY, *flags))
            way = dataclasses.replace(way, flags=(*way.flags, "--api-key", API_KEY))
            reference = await stack.enter_async_context(running(REFERENCE, way))
            grounds[name] = Ground(way, reference)
        yield grounds


async def run(client: Client, grounds: Mapping[str, Ground]) -> list[Result]:
    """Run all scenarios; one process makes those on the same server while it can."""
    results: dict[str, Result] = {}
    for server, ground in grounds.items():
        rest = [scenario for scenario in SCENARIOS if scenario.server == server]
        while rest:
            async with running(client, ground.way) as runner:
                while rest:
                    scenario = rest.pop(0)
                    results[scenario.name], is_alive = await _run(runner, client, scenario, ground)
                    if not is_alive:
                        break
                else:
                    await runner.end()
    return [results[scenario.name] for scenario in SCENARIOS]


async def _run(
    runner: Runner, client: Client, scenario: Scenario, ground: Ground
) -> tuple[Result, bool]:
    """Run a scenario, and tell also whether the runner has survived it."""
    for number, step in enumerate(scenario.steps, 1):
        request_id = new_id(f"{client.name}-{scenario.name.replace(' ', '-')}-{number}")
        try:
            reason, problems = await _run_step(runner, step, request_id, ground)
        except RunnerError as error:
            return Result(scenario.name, (f"step {number}: {error}",)), False
        if reason is not None or problems:
            told = tuple(f"step {number}: {problem}" for problem in problems)
            return Result(scenario.name, told, reason), True
    return Result(scenario.name), True


async def _run_step(
    runner: Runner, step: Step, request_id: str, ground: Ground
) -> tuple[str | None, list[str]]:
    way, server = ground.way, ground.way.server
    alone = await ground.alone(step)
    opened = int((await server.balance())["sequences_opened_total"])
    sent = way.wire.num_sent_bytes
    line = {"id": request_id, "metadata": {"x-request-id": request_id}, **step.send}
    if step.is_full:
        async with _full(way):
            answer = await runner.ask(line)
        opened += _NUM_OF_FULL
    else:
        answer = await runner.ask(line)
    if "unsupported" in answer:
        return answer["unsupported"], []
    if len(answer["calls"]) != step.num_calls:
        return None, [f"there are {len(answer['calls'])} calls"]
    problems = [
        problem
        for call, lonely in zip(answer["calls"], alone, strict=True)
        for problem in problems_of(call, step.sees, Asked(line["method"], request_id, lonely))
    ]
    sent = way.wire.num_sent_bytes - sent
    if step.sent_below is not None and sent >= step.sent_below:
        problems.append(f"{sent} bytes were sent")
    problems += await _problems_of_log(runner, step, request_id, ground)
    opened = int((await server.balance())["sequences_opened_total"]) - opened
    if opened != step.opened:
        problems.append(f"the engine has opened {opened} sequences, not {step.opened}")
    return None, problems


async def _problems_of_log(
    runner: Runner, step: Step, request_id: str, ground: Ground
) -> list[str]:
    server, logs = ground.way.server, step.logs
    if logs is None:
        # Another call on the same channel, whose line comes behind what there would be.
        marker = new_id("marker")
        line = {"method": "HealthCheck", "request": {}, "metadata": {"x-request-id": marker}}
        await runner.ask({"id": marker, **line})
        await server.logged(marker, 1)
        return [f"the server has logged {call}" for call in server.calls_of(request_id)]
    calls = await server.logged(request_id, step.num_calls)
    problems = [
        f"the server has logged {call}"
        for call in calls
        if call["code"] != logs.code
        or call.get("reason") != step.sees.reason
        or not (logs.tokens_below is None or call["output_tokens"] < logs.tokens_below)
    ]
    if len(calls) != step.num_calls:
        problems.append(f"the server has seen {len(calls)} calls")
    return problems


@asynccontextmanager
async def _full(way: Way) -> AsyncIterator[None]:
    """Hold all places of the server by a client that is killed afterwards."""
    async with running(REFERENCE, way) as filler:
        await filler.send(
            {"id": "full", "method": "Generate", "request": _ENDLESS, "count": _NUM_OF_FULL}
        )
        await way.server.metrics_when(
            lambda told: told["sequences_running"] == told["sequences_waiting"] == 1
        )
        yield
