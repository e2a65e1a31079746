"""The prompts of a load."""

from random import Random

from headrace.cli.bench.prompts import random_prompts


def test_prompts_have_their_length_and_differ():
    """Each prompt has exactly so many tokens of those that there are, and its own beginning."""
    prompts = list(random_prompts(range(5, 25), 64, Random(1), 10))
    assert [len(prompt) for prompt in prompts] == [64] * 10
    assert {token for prompt in prompts for token in prompt} == set(range(5, 25))
    assert len({tuple(prompt[:16]) for prompt in prompts}) == 10


def test_a_seed_repeats_the_prompts():
    """The same seed gives the same prompts, another seed others."""
    first, again, other = (list(random_prompts(range(9), 8, Random(n), 3)) for n in (1, 1, 2))
    assert first == again
    assert first != other
