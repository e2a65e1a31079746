"""Log probabilities against a double-precision log-softmax."""

import math

import pytest
import torch

from headrace_server.engine.logprobs import TokenLogprobs
from headrace_server.engine.model_runner import PromptLogprobs, RowFault, RowOutput
from headrace_server.models.sampling.logprobs import prompt_logprobs, token_logprobs


def random_logits(num_rows: int, vocabulary_size: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(vocabulary_size)
    return torch.randn(num_rows, vocabulary_size, generator=generator) * 4


@pytest.mark.parametrize("vocabulary_size", [2, 30, 64, 97, 5000])
def test_logprobs_are_the_log_softmax(vocabulary_size):
    """Of the token and of as many of the most likely as each row wants, in falling order."""
    num_tops = [0, 1, 5, 20, 20]
    logits = random_logits(40, vocabulary_size)
    token_ids = [index * 7 % vocabulary_size for index in range(40)]
    expected = logits.double().log_softmax(dim=-1)
    told = token_logprobs(logits, token_ids, num_tops * 8)
    for row, token_id, num_top, actual in zip(expected, token_ids, num_tops * 8, told, strict=True):
        top = row.sort(descending=True, stable=True)
        assert isinstance(actual, TokenLogprobs)
        assert actual.logprob == pytest.approx(row[token_id].item(), abs=1e-5)
        assert actual.top_token_ids == top.indices[:num_top].tolist()
        assert actual.top_logprobs == pytest.approx(top.values[:num_top].tolist(), abs=1e-5)


def test_equal_tokens_come_by_rising_id():
    """Where all are as likely, the order is that of ids."""
    (told,) = token_logprobs(torch.zeros(1, 10), [3], [5])
    assert told == TokenLogprobs(
        pytest.approx(-math.log(10)), [0, 1, 2, 3, 4], [pytest.approx(-math.log(10))] * 5
    )


def test_impossible_tokens_are_not_among_the_most_likely():
    """A token of no probability is told of itself alone."""
    logits = torch.full((1, 70), -torch.inf)
    logits[0, [3, 69]] = 0.0
    (told,) = token_logprobs(logits, [5], [20])
    assert told == TokenLogprobs(-math.inf, [3, 69], [pytest.approx(-math.log(2))] * 2)


def test_logprobs_depend_on_their_row_alone():
    """To the bit the same alone and among rows that want more."""
    logits = random_logits(50, 49152)
    together = token_logprobs(logits, [7] * 50, [index % 21 for index in range(50)])
    for index in (0, 17, 49):
        alone = token_logprobs(logits[index : index + 1], [7], [index % 21])
        assert alone == [together[index]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_faults_its_row_alone(bad):
    """One bad logit anywhere spoils the sum of its row, and no other."""
    logits = random_logits(3, 100)
    healthy = token_logprobs(logits, [1, 2, 3], [0, 2, 5])
    logits[1, 77] = bad
    assert token_logprobs(logits, [1, 2, 3], [0, 2, 5]) == [
        healthy[0],
        RowFault.NOT_A_NUMBER,
        healthy[2],
    ]


def test_prompts_get_their_own_logprobs():
    """The logits of all prompts lie one behind the other; a prompt may want none."""
    logits = random_logits(5, 100)
    prompts = [PromptLogprobs([1, 2], 3), PromptLogprobs([], 2), PromptLogprobs([3, 4, 5], 0)]
    told = token_logprobs(logits, [1, 2, 3, 4, 5], [3, 3, 0, 0, 0])
    assert prompt_logprobs(logits, prompts) == [
        RowOutput(None, prompt_logprobs=told[:2]),
        RowOutput(None, prompt_logprobs=[]),
        RowOutput(None, prompt_logprobs=told[2:]),
    ]
    logits[3, 0] = math.nan
    assert prompt_logprobs(logits, prompts) == [
        RowOutput(None, prompt_logprobs=told[:2]),
        RowOutput(None, prompt_logprobs=[]),
        RowFault.NOT_A_NUMBER,
    ]
