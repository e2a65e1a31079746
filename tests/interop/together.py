"""Runs the scenarios in which the server goes away, with all clients at once before one server."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from tests.interop.checks import Asked, problems_of, problems_of_log
from tests.interop.grounds import API_KEY, open_ground
from tests.interop.runner import RunnerError, running
from tests.interop.scenarios import SCENARIOS
from tests.interop.server import ServerError, new_id
from tests.interop.suite import Result

if TYPE_CHECKING:
    from tests.interop.answers import Answer
    from tests.interop.clients import Client
    from tests.interop.grounds import Ground
    from tests.interop.oracle import Oracle
    from tests.interop.routes import Route
    from tests.interop.runner import Runner
    from tests.interop.scenarios import Scenario, Step

TOGETHER = [scenario for scenario in SCENARIOS if scenario.signal is not None]
# It goes on to refuse calls until the last client has asked.
_FLAGS = ("--lame-duck", 120)


async def run_together(
    clients: list[Client], route: Route, oracle: Oracle, scenario: Scenario
) -> dict[str, Result]:
    """Let all clients begin, send the signal, and return how it went for each by its name."""
    try:
        return await _run(clients, route, oracle, scenario)
    except ServerError as error:
        return {client.name: Result(scenario.name, (str(error),)) for client in clients}


async def _run(
    clients: list[Client], route: Route, oracle: Oracle, scenario: Scenario
) -> dict[str, Result]:
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(open_ground(route, oracle, *_FLAGS))
        alone = [(await oracle.alone(step))[0] for step in scenario.steps]
        parties = [_Party(ground, scenario, alone) for _ in clients]
        for client, party in zip(clients, parties, strict=True):
            await party.start(client, stack)
        await asyncio.gather(*(party.connect() for party in parties))
        await asyncio.gather(*(party.begin() for party in parties))
        server = ground.way.server
        await server.metrics_when(
            lambda told: told["sequences_running"] == sum(party.is_alive for party in parties)
        )
        if scenario.signal == "SIGKILL" and route.ends_with_server:
            ground.way.wire.refuse()
        server.process.send_signal(signal.Signals[scenario.signal])
        await asyncio.gather(*(party.go_on() for party in parties))
        if scenario.signal != "SIGKILL":
            await server.balance()
            await asyncio.gather(*(party.look_into_log() for party in parties))
        return {
            client.name: Result(scenario.name, tuple(party.problems))
            for client, party in zip(clients, parties, strict=True)
        }


class _Party:
    """A client among the others."""

    def __init__(self, ground: Ground, scenario: Scenario, alone: list[Answer | None]) -> None:
        self._ground = ground
        self._runner: Runner | None = None
        self._alone = alone
        self._lines = [(new_id("together"), step) for step in scenario.steps]
        self.problems: list[str] = []
        self.is_alive = True

    async def start(self, client: Client, stack: AsyncExitStack) -> None:
        """Start the runner of a client, which ends with the stack."""
        try:
            starting = running(client, self._ground.way, "--api-key", API_KEY)
            self._runner = await stack.enter_async_context(starting)
        except RunnerError as error:
            self._fail(error)

    async def connect(self) -> None:
        """Make a call, so that the next one begins at once."""
        if not self.is_alive:
            return
        try:
            await self._runner.ask({"id": "first", "method": "GetModel", "request": {}})
        except RunnerError as error:
            self._fail(error)

    async def begin(self) -> None:
        """Send the first line."""
        if not self.is_alive:
            return
        try:
            await self._runner.send(_line(*self._lines[0]))
        except RunnerError as error:
            self._fail(error)

    async def go_on(self) -> None:
        """Take the answer to the first line and ask all others."""
        try:
            for number, (request_id, step) in enumerate(self._lines):
                if not self.is_alive:
                    return
                line = _line(request_id, step)
                if number > 0:
                    await self._runner.send(line)
                answer = await self._runner.answer_to(line)
                if "unsupported" in answer:
                    raise RunnerError(answer["unsupported"])
                (call,) = answer["calls"]
                asked = Asked(
                    self._ground.route.name, step.send["method"], request_id, self._alone[number]
                )
                self.problems += [
                    f"step {number + 1}: {problem}"
                    for problem in problems_of(call, step.sees, asked)
                ]
        except RunnerError as error:
            self._fail(error)

    async def look_into_log(self) -> None:
        """Compare what the server has seen."""
        if self.is_alive:
            for request_id, step in self._lines:
                calls = await self._ground.way.server.logged(request_id, 1)
                self.problems += problems_of_log(calls, step, self._ground.route.num_tries)

    def _fail(self, error: RunnerError) -> None:
        self.problems.append(str(error))
        self.is_alive = False


def _line(request_id: str, step: Step) -> dict:
    return {"id": request_id, "metadata": {"x-request-id": request_id}, **step.send}
