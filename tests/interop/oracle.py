"""What is right to answer: what the reference client gets from a server that nobody else asks."""

from __future__ import annotations

import copy
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.interop.answers import join
from tests.interop.checks import parse
from tests.interop.clients import CLIENTS
from tests.interop.routes import PLAIN
from tests.interop.runner import Runner, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.interop.answers import Answer
    from tests.interop.scenarios import Step

REFERENCE = CLIENTS[0]
# So much of an answer that will be cut is compared.
_BEGINNING_TOKENS = 100


class Oracle:
    """Knows the answers to requests with a seed, which are the same on all routes."""

    def __init__(self, reference: Runner) -> None:
        self._reference = reference
        self._answers: dict[str, Answer] = {}

    async def alone(self, step: Step) -> list[Answer | None]:
        """The answer that each call of a step has when nothing else is asked for."""
        send = step.send
        if step.sees.answer is None:
            return [None] * step.num_calls
        requests = send.get("requests") or [send["request"]] * step.num_calls
        if step.sees.answer == "begun":
            requests = [_beginning(request) for request in requests]
        return [await self.answer(request) for request in requests]

    async def answer(self, request: dict[str, Any]) -> Answer:
        """The whole answer to a request."""
        key = repr(request)
        if key not in self._answers:
            line = {"id": "alone", "method": "Generate", "request": request}
            (call,) = (await self._reference.ask(line))["calls"]
            if call["code"] != "OK":
                raise AssertionError(f"the reference client got {call}")
            self._answers[key] = join(parse(call["responses"], "Generate"))
        return self._answers[key]


@asynccontextmanager
async def open_oracle() -> AsyncIterator[Oracle]:
    """Start a server that takes no time, with the reference client."""
    async with (
        PLAIN.open("--simulated-step-seconds", 0) as way,
        running(REFERENCE, way) as reference,
    ):
        yield Oracle(reference)


def _beginning(request: dict[str, Any]) -> dict[str, Any]:
    request = copy.deepcopy(request)
    request["stopping"]["maxOutputTokens"] = _BEGINNING_TOKENS
    return request
