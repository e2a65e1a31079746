"""Runs the scenarios with one client on one route, and says of each how it went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop.checks import Asked, problems_of, problems_of_log, problems_of_pauses
from tests.interop.grounds import API_KEY, NUM_OF_FULL, full
from tests.interop.runner import Runner, RunnerError, running
from tests.interop.scenarios import SCENARIOS
from tests.interop.server import ServerError, new_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.interop.clients import Client
    from tests.interop.grounds import Ground
    from tests.interop.scenarios import Scenario, Step

# Those in which the server stays.
ALONE = [scenario for scenario in SCENARIOS if scenario.signal is None]


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


async def run(client: Client, grounds: Mapping[str, Ground]) -> list[Result]:
    """Run all scenarios; one process makes those on the same server while it can."""
    results: dict[str, Result] = {}
    for server, ground in grounds.items():
        scenarios = [each for each in ALONE if each.server == server]
        while rest := [each for each in scenarios if each.name not in results]:
            try:
                await _run_while_alive(client, rest, ground, results)
            except RunnerError as error:  # it did not start
                results[rest[0].name] = Result(rest[0].name, (str(error),))
    return [results[scenario.name] for scenario in ALONE]


async def _run_while_alive(
    client: Client, scenarios: list[Scenario], ground: Ground, results: dict[str, Result]
) -> None:
    """Run scenarios in one process, to the last or to that which it does not survive."""
    async with running(client, ground.way, "--api-key", API_KEY) as runner:
        for scenario in scenarios:
            results[scenario.name], is_alive = await _run(runner, client, scenario, ground)
            if not is_alive:
                return
        try:
            await runner.end()
        except RunnerError as error:
            results[scenario.name] = Result(scenario.name, (str(error),))


async def _run(
    runner: Runner, client: Client, scenario: Scenario, ground: Ground
) -> tuple[Result, bool]:
    """Run a scenario, and tell also whether the runner has survived it."""
    for number, step in enumerate(scenario.steps, 1):
        request_id = new_id(f"{client.name}-{scenario.name.replace(' ', '-')}-{number}")
        try:
            reason, problems = await _run_step(runner, step, request_id, ground)
        except (RunnerError, ServerError) as error:
            return Result(scenario.name, (f"step {number}: {error}",)), False
        if reason is not None or problems:
            told = tuple(f"step {number}: {problem}" for problem in problems)
            return Result(scenario.name, told, reason), True
    return Result(scenario.name), True


async def _run_step(
    runner: Runner, step: Step, request_id: str, ground: Ground
) -> tuple[str | None, list[str]]:
    way, server = ground.way, ground.way.server
    alone = await ground.oracle.alone(step)
    opened = int((await server.balance())["sequences_opened_total"])
    sent = way.wire.num_sent_bytes
    line = {"id": request_id, "metadata": {"x-request-id": request_id}, **step.send}
    if step.is_full:
        async with full(way):
            answer = await runner.ask(line)
        opened += NUM_OF_FULL
    else:
        answer = await runner.ask(line)
    if "unsupported" in answer:
        return answer["unsupported"], []
    if len(answer["calls"]) != step.num_calls:
        return None, [f"there are {len(answer['calls'])} calls"]
    problems = []
    for call, lonely in zip(answer["calls"], alone, strict=True):
        asked = Asked(ground.route.name, line["method"], request_id, lonely)
        problems += problems_of(call, step.sees, asked)
        problems += problems_of_pauses(call, step.send.get("read_pause_ms", 0))
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
    if step.has_any_log:
        return []
    if logs is None:
        # Another call on the same channel, whose line comes behind what there would be.
        marker = new_id("marker")
        line = {"method": "HealthCheck", "request": {}, "metadata": {"x-request-id": marker}}
        await runner.ask({"id": marker, **line})
        await server.logged(marker, 1)
        return [f"the server has logged {call}" for call in server.calls_of(request_id)]
    calls = await server.logged(request_id, step.num_calls)
    return problems_of_log(calls, step, ground.route.num_tries)
