"""Penalties against the definition and against transformers."""

import random

import numpy as np
import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from headrace_server.models.sampling.penalties import penalise_
from tests.server.models.sampling.reference import changed_logits, make_row


def random_logits(num_rows: int) -> torch.Tensor:
    return torch.randn(num_rows, 200, generator=torch.Generator().manual_seed(0)) * 5


def test_penalties_follow_the_definition():
    """Any mix of penalties in a batch, with tokens that occur often, once and never."""
    generator = random.Random(0)
    rows = [
        make_row(
            repetition_penalty=generator.choice([1.0, 0.5, 1.3]),
            presence_penalty=generator.choice([0.0, -2.0, 1.5]),
            frequency_penalty=generator.choice([0.0, -0.5, 2.0]),
            prompt_token_ids=generator.choices(range(100), k=generator.choice([0, 3, 300])),
            output_token_ids=generator.choices(range(50, 150), k=generator.choice([0, 1, 200])),
        )
        for _ in range(40)
    ]
    logits = random_logits(len(rows))
    expected = [changed_logits(*pair) for pair in zip(logits.numpy(), rows, strict=True)]
    penalise_(logits, rows)
    np.testing.assert_allclose(logits.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("penalty", [0.7, 1.2, 2.0])
def test_repetition_penalty_is_that_of_transformers(penalty):
    """Divided where positive, multiplied where not, over prompt and output, once for each id."""
    prompt, output = [1, 5, 5, 150], [5, 7, 7]
    logits = random_logits(1)
    processor = RepetitionPenaltyLogitsProcessor(penalty)
    expected = processor(torch.tensor([prompt + output]), logits.clone())
    row = make_row(repetition_penalty=penalty, prompt_token_ids=prompt, output_token_ids=output)
    penalise_(logits, [row])
    torch.testing.assert_close(logits, expected)


def test_presence_and_frequency_are_of_the_output_alone():
    """What stands in the prompt is free, and presence counts once."""
    logits = torch.zeros(1, 4)
    row = make_row(
        presence_penalty=0.5,
        frequency_penalty=0.25,
        prompt_token_ids=[0, 0, 1],
        output_token_ids=[1, 2, 2, 2],
    )
    penalise_(logits, [row])
    assert logits.tolist() == [[0.0, -0.75, -1.25, 0.0]]


def test_banned_tokens_stay_banned():
    """Whatever a penalty does to -infinity, it stays."""
    logits = torch.tensor([[0.0, -torch.inf]])
    row = make_row(
        repetition_penalty=0.5,
        presence_penalty=-2.0,
        frequency_penalty=-2.0,
        output_token_ids=[1],
    )
    penalise_(logits, [row])
    assert logits.tolist() == [[0.0, -torch.inf]]


def test_an_id_outside_the_vocabulary_raises():
    """It must not land in the row behind."""
    rows = [make_row(repetition_penalty=2.0, prompt_token_ids=[200]), make_row()]
    with pytest.raises(IndexError):
        penalise_(torch.zeros(2, 200), rows)
