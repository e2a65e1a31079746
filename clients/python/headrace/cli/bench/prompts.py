"""Prompts of an exact number of tokens that have nothing in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.cli.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from headrace.cli.bench.endpoint import Endpoint

# Plain words, so that no token of them is a control token.
_WORDS = (
    "the water comes down from the hills and turns a wheel that drives all the machines of a mill "
    "while people carry sacks of grain over a small bridge before the evening light is gone"
)


async def find_token_ids(endpoint: Endpoint) -> Sequence[int]:
    """Return the ids of plain words.

    Raises:
        CommandError: the server has no tokens for them.
        RequestFailedError: see `Endpoint.tokenize`.
    """
    # A tokenizer may put control tokens around a text.
    token_ids = list(await endpoint.tokenize(_WORDS))[1:-1]
    if not token_ids:
        raise CommandError(f"{endpoint.name} has no tokens for plain words.")
    return token_ids


def random_prompts(
    token_ids: Sequence[int], num_tokens: int, random: Random, num_prompts: int
) -> Iterator[list[int]]:
    """Yield prompts that a prefix cache does not know."""
    for _ in range(num_prompts):
        yield random.choices(token_ids, k=num_tokens)
