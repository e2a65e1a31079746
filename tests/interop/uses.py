"""The uses of the program that people copy: each must go the same way in every language."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.interop.grounds import API_KEY, full
from tests.interop.program import ProgramError, started
from tests.interop.runner import RunnerError
from tests.interop.seeds import answer_ended, next_answer, num_answers
from tests.interop.server import ServerError
from tests.interop.suite import Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.interop.clients import Client
    from tests.interop.grounds import Ground
    from tests.interop.program import Program

_PROMPT = "Grüße! 🌊 日"
_NUM_TOKENS = 150
# Long enough for what cuts it, which comes after some tokens.
_NUM_LONG_TOKENS = 400
_LONG = ("--max-tokens", _NUM_LONG_TOKENS, _PROMPT)
_KEY = {"HEADRACE_API_KEY": API_KEY}
_FLAGS = ["target", "tls", "ca-certs", "certfile", "keyfile", "api-key", "max-tokens", "timeout"]
_RETRY = r"; retry in \d+\.\d s"


@dataclass(frozen=True)
class Use:
    """A row of the matrix.

    Args:
        name: of the row.
        says: what is done and seen.
        check: does it, and returns what went wrong.
    """

    name: str
    says: str
    check: Callable[[Client, Mapping[str, Ground]], Awaitable[list[str]]]


async def use_program(client: Client, grounds: Mapping[str, Ground]) -> list[Result]:
    """Use the program of a client in all ways, where its route is one for that."""
    if not grounds["program"].route.has_programs:
        return []
    results = []
    for use in USES:
        try:
            problems = await use.check(client, grounds)
        except (ProgramError, RunnerError, ServerError) as error:
            problems = [str(error)]
        results.append(Result(use.name, tuple(problems)))
    return results


async def _answer(client: Client, grounds: Mapping[str, Ground]) -> list[str]:
    ground = grounds["program"]
    wanted = await next_answer(ground, _PROMPT, _NUM_TOKENS)
    num_before = num_answers(ground)
    arguments = ("--max-tokens", _NUM_TOKENS, _PROMPT)
    async with started(client, ground.way, *arguments, **_KEY) as program:
        await program.first_piece()
        is_early = num_answers(ground) == num_before
        problems = _problems(program, await program.end(), 0, wanted + "\n", "")
    call = await answer_ended(ground, num_before + 1)
    if call["code"] != "OK":
        problems.append(f"the server has logged {call}")
    return problems if is_early else [*problems, "no text came before the end"]


async def _wrong_key(client: Client, grounds: Mapping[str, Ground]) -> list[str]:
    way = grounds["program"].way
    async with started(client, way, "--api-key", "wrong", _PROMPT, **_KEY) as program:
        error = "error: UNAUTHENTICATED: .+"
        return _problems(program, await program.end(), 1, "", error)


async def _overload(client: Client, grounds: Mapping[str, Ground]) -> list[str]:
    way = grounds["narrow"].way
    async with full(way), started(client, way, _PROMPT, **_KEY) as program:
        return _problems(program, await program.end(), 1, "", f"error: OVERLOADED: .+{_RETRY}")


async def _deadline(client: Client, grounds: Mapping[str, Ground]) -> list[str]:
    ground = grounds["program"]
    await next_answer(ground, _PROMPT, _NUM_LONG_TOKENS)
    num_before = num_answers(ground)
    async with started(client, ground.way, "--timeout", 0.5, *_LONG, **_KEY) as program:
        status = await program.end()
        problems = _problems(program, status, 1, None, "error: DEADLINE_EXCEEDED: .+")
    return problems + await _problems_of_cut(ground, num_before)


async def _interrupt(client: Client, grounds: Mapping[str, Ground]) -> list[str]:
    ground = grounds["program"]
    await next_answer(ground, _PROMPT, _NUM_LONG_TOKENS)
    num_before = num_answers(ground)
    async with started(client, ground.way, *_LONG, **_KEY) as program:
        await program.first_piece()
        program.interrupt(signal.SIGINT)
        problems = _problems(program, await program.end(), 130, None, "")
    return problems + await _problems_of_cut(ground, num_before)


async def _misuse(client: Client, grounds: Mapping[str, Ground]) -> list[str]:
    way = grounds["program"].way
    problems = []
    for arguments in ((), ("--no-such-flag", _PROMPT), ("--max-tokens", "many", _PROMPT)):
        async with started(client, way, *arguments, **_KEY) as program:
            status = await program.end()
            problems += _problems(program, status, 2, "", None)
            if not program.stderr.strip():
                problems.append("it does not say what is wrong")
    return problems


async def _help(client: Client, grounds: Mapping[str, Ground]) -> list[str]:
    async with started(client, grounds["program"].way, "--help") as program:
        status = await program.end()
    # Go's library writes it to stderr, and with one hyphen; all else is what it says.
    told = program.stdout or program.stderr
    problems = [f"it does not tell of -{flag}" for flag in _FLAGS if f"-{flag}" not in told]
    return problems + _problems(program, status, 0, None, None)


USES = (
    Use("program: answer", "prints the answer piece by piece and ends with status 0", _answer),
    Use("program: wrong key", "says so in one line and ends with status 1", _wrong_key),
    Use("program: overload", "says so with the time after which to try again", _overload),
    Use("program: deadline", "says so when --timeout has passed", _deadline),
    Use("program: Ctrl-C", "cancels the call at the server and ends with status 130", _interrupt),
    Use("program: misuse", "says so and ends with status 2", _misuse),
    Use("program: help", "tells of all flags and ends with status 0", _help),
)


def _problems(
    program: Program, status: int, wanted_status: int, stdout: str | None, stderr: str | None
) -> list[str]:
    """Compare status and output; stderr is one line of this form, and None stands for anything."""
    problems = []
    if status != wanted_status:
        problems.append(f"it ended with status {status}, not {wanted_status}: {program.stderr}")
    if stdout is not None and program.stdout != stdout:
        problems.append(f"stdout is {program.stdout!r}, not {stdout!r}")
    if stderr is not None and not re.fullmatch(stderr, program.stderr.removesuffix("\n")):
        problems.append(f"stderr is {program.stderr!r}")
    return problems


async def _problems_of_cut(ground: Ground, num_before: int) -> list[str]:
    """Whether the server has stopped; which end of a call it takes for its deadline is its own."""
    call = await answer_ended(ground, num_before + 1)
    await ground.way.server.balance()
    is_left = call["code"] in ("CANCELLED", "DEADLINE_EXCEEDED")
    is_cut = is_left and call["output_tokens"] < _NUM_LONG_TOKENS
    return [] if is_cut else [f"the server has logged {call}"]
