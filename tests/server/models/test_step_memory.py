"""What steps are reckoned to take of a GPU."""

import torch

from headrace_server.engine.limits import SchedulerLimits
from headrace_server.models.step_memory import step_bytes
from random_model import Model, Shape

SHAPE = Shape(64, 96, 2, 4, 2, 16, 1000)


def reckoned(num_sequences=8, num_tokens=256, num_graphs=0):
    decoder = Model(SHAPE, torch.device("cpu"), torch.bfloat16, 4, plain=True).decoder
    limits = SchedulerLimits(num_sequences, num_tokens, 64, SHAPE.vocabulary)
    return step_bytes(decoder, limits, num_graphs)


def test_it_grows_with_what_a_step_may_hold():
    """More tokens take what their states take in each format; each graph takes its own."""
    # Hidden states of 64 numbers, queries, keys and values of 128, gate and up of 192; 2 bytes.
    token_bytes = 2 * (3 * 64 + 2 * 128 + 2 * 192)
    assert reckoned(num_tokens=356) - reckoned() == 100 * token_bytes
    logit_bytes = 22 * SHAPE.vocabulary
    assert reckoned(num_sequences=9) - reckoned() == token_bytes + logit_bytes
    assert reckoned(num_graphs=3) - reckoned() == 3 * (8 << 20)
