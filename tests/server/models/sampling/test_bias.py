"""Bias and bans against the definition."""

import random

import numpy as np
import pytest
import torch

from headrace_server.models.sampling.bias import add_bias_
from tests.server.models.sampling.reference import changed_logits, make_row


def test_bias_and_bans_follow_the_definition():
    """Each row gets its own bias and bans; an id that is both banned and biased stays banned."""
    generator = random.Random(0)
    rows = [
        make_row(
            logit_bias={
                generator.randrange(300): generator.uniform(-100, 100) for _ in range(num_biased)
            },
            banned_token_ids=generator.sample(range(300), num_banned),
        )
        for num_biased, num_banned in ((0, 0), (5, 0), (0, 3), (200, 100), (1, 1))
    ]
    logits = torch.randn(len(rows), 300, generator=torch.Generator().manual_seed(0))
    expected = [changed_logits(*pair) for pair in zip(logits.numpy(), rows, strict=True)]
    add_bias_(logits, rows)
    np.testing.assert_allclose(logits.numpy(), expected, rtol=1e-6)


def test_rows_without_bias_stay_as_they_are():
    """Nothing is written where nothing is asked for."""
    logits = torch.randn(2, 10)
    expected = logits.clone()
    add_bias_(logits, [make_row(), make_row()])
    assert torch.equal(logits, expected)


@pytest.mark.parametrize("values", [{"logit_bias": {10: 1.0}}, {"banned_token_ids": (10,)}])
def test_an_id_outside_the_vocabulary_raises(values):
    """It must not land in the row behind."""
    with pytest.raises(IndexError):
        add_bias_(torch.zeros(2, 10), [make_row(**values), make_row()])
