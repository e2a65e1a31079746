"""Masks against their definition."""

import random

import pytest
import torch

from headrace_server.models.sampling.mask import apply_masks_
from tests.server.models.sampling.reference import ReadyMask, make_row


@pytest.mark.parametrize("vocabulary_size", [1, 31, 32, 64, 97, 1000])
def test_masks_leave_what_they_allow(vocabulary_size):
    """Every bit acts on its token, in rows with a mask alone, to the end of any vocabulary."""
    generator = random.Random(vocabulary_size)
    shares = (0.0, 0.02, 0.5, 1.0, None)
    allowed = [
        set(range(vocabulary_size))
        if share is None
        else {token for token in range(vocabulary_size) if generator.random() < share}
        for share in shares
    ]
    rows = [
        make_row(mask=None if share is None else ReadyMask(tokens, vocabulary_size))
        for share, tokens in zip(shares, allowed, strict=True)
    ]
    logits = torch.randn(len(rows), vocabulary_size)
    is_allowed = torch.tensor([[t in tokens for t in range(vocabulary_size)] for tokens in allowed])
    expected = torch.where(is_allowed, logits, -torch.inf)
    for chosen in ([0, 1, 2, 3, 4], [1, 2, 3], [4], [4, 2]):
        actual = logits[chosen]
        apply_masks_(actual, [rows[index] for index in chosen])
        assert torch.equal(actual, expected[chosen])
