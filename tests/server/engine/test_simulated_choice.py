"""The made-up distribution: it agrees with the answers, and the sampling acts on it."""

import math

import numpy as np
import pytest

from headrace_server.engine.model_runner import RowFault, RowSampling
from headrace_server.engine.simulated_choice import choose_token, token_logprobs
from headrace_server.engine.simulated_vocabulary import VOCABULARY_SIZE
from tests.server.engine.fake_constraints import FakeMask

CONTEXTS = [np.frombuffer(text, np.uint8).astype(np.int32) for text in (b"hi", b"a text", b"\xe6")]


def choose(context, **options):
    values = {
        "position": len(context),
        "temperature": 0.0,
        "top_k": None,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": 0,
        "banned_token_ids": (),
    }
    return choose_token(context, RowSampling(**(values | options)))


@pytest.mark.parametrize("context", CONTEXTS)
def test_probabilities_sum_to_one_and_are_in_order(context):
    """The log probabilities of all tokens are a distribution, the most likely first."""
    logprobs = token_logprobs(context, 7, VOCABULARY_SIZE)

    assert sum(map(math.exp, logprobs.top_logprobs)) == pytest.approx(1)
    assert logprobs.top_logprobs == sorted(logprobs.top_logprobs, reverse=True)
    assert logprobs.logprob == logprobs.top_logprobs[logprobs.top_token_ids.index(7)]


@pytest.mark.parametrize("context", CONTEXTS)
def test_the_greedy_choice_is_the_most_likely_token(context):
    """Answers and log probabilities tell the same story."""
    greedy = choose(context)

    assert token_logprobs(context, greedy, 1).top_token_ids == [greedy]
    assert token_logprobs(context, greedy, 0).top_token_ids == []


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("seed", [0, 5])
def test_an_adjustment_without_effect_leaves_the_choice(context, seed):
    """A bias on an unlikely token or a mask of everything changes nothing."""
    options = {"temperature": 1.0, "seed": seed}
    everything = FakeMask(range(VOCABULARY_SIZE))

    assert choose(context, **options, logit_bias={200: -1.0}) == choose(context, **options)
    assert choose(context, **options, mask=everything) == choose(context, **options)


def test_a_bias_of_100_forces_and_of_minus_100_bans():
    """The ends of the range do what people use them for."""
    for context in CONTEXTS:
        assert choose(context, logit_bias={33: 100.0}) == 33
        assert choose(context, logit_bias={choose(context): -100.0}) != choose(context)


def test_penalties_make_way_for_the_next_best():
    """A token that came before is passed by another, the more surely the more often it came."""
    context = CONTEXTS[0]
    best = choose(context)
    seen = {"output_token_ids": [best]}

    assert choose(context, **seen, presence_penalty=2.0) != best
    assert choose(context, **seen, frequency_penalty=0.1) == best
    assert choose(context, output_token_ids=[best] * 20, frequency_penalty=0.1) != best
    assert choose(context, prompt_token_ids=[best], repetition_penalty=1.5) != best
    assert choose(context, prompt_token_ids=[best], presence_penalty=2.0) == best


def test_only_what_the_mask_leaves_is_chosen():
    """Masks and banned ids leave the rest, and nothing is a fault."""
    context = CONTEXTS[0]

    assert choose(context, mask=FakeMask([65])) == 65
    assert choose(context, mask=FakeMask([65, 66]), banned_token_ids=[65]) == 66
    assert choose(context, mask=FakeMask([65]), banned_token_ids=[65]) is RowFault.NOT_A_NUMBER
