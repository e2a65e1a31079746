"""The answers of the server of the programs, which draws the seeds itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace_server.text.seeds import Seeds
from tests.interop.grounds import API_KEY, SEED
from tests.interop.oracle import REFERENCE
from tests.interop.runner import running

if TYPE_CHECKING:
    from tests.interop.grounds import Ground


def num_answers(ground: Ground) -> int:
    """The number of answers that have ended, for each of which the server has drawn a seed."""
    return len(_ended(ground))


async def answer_ended(ground: Ground, number: int) -> dict[str, Any]:
    """Wait until so many answers have ended, and return the line of the last in the log."""
    await ground.way.server.until(lambda: num_answers(ground) >= number)
    return _ended(ground)[-1]


def _ended(ground: Ground) -> list[dict[str, Any]]:
    return [call for call in ground.way.server.calls if "output_tokens" in call]


async def next_answer(ground: Ground, prompt: str, num_tokens: int) -> str:
    """The text of the next answer, which is cut after so many tokens.

    Answers that would end earlier are passed over: a short call takes the seed of each.
    """
    while True:
        text = await _answer_to(ground, prompt, num_tokens)
        if text is not None:
            return text
        number = num_answers(ground)
        line = {"id": "pass", "method": "Generate", "request": _request(prompt, 1)}
        async with running(REFERENCE, ground.way, "--api-key", API_KEY) as reference:
            await reference.ask(line)
        await answer_ended(ground, number + 1)


async def _answer_to(ground: Ground, prompt: str, num_tokens: int) -> str | None:
    seeds = Seeds(SEED)
    for _ in range(num_answers(ground)):
        seeds.draw()
    request = _request(prompt, num_tokens) | {"sampling": {"seed": str(seeds.draw())}}
    candidate = (await ground.oracle.answer(request)).candidates[0]
    is_cut = candidate.finish == {"reason": "FINISH_REASON_MAX_OUTPUT_TOKENS"}
    return candidate.text if is_cut else None


def _request(prompt: str, num_tokens: int) -> dict[str, Any]:
    return {
        "chat": {"messages": [{"role": "ROLE_USER", "content": prompt}]},
        "stopping": {"maxOutputTokens": num_tokens},
    }
