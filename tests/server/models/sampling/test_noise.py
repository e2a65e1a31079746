"""Noise: by definition, in distribution, and independent wherever it should be."""

import math

import pytest
import torch

from headrace_server.models.sampling.noise import delays, first_times, gumbel, noise_keys
from tests.server.models.sampling.reference import noise


def keys_of(seeds, positions=(0,)) -> torch.Tensor:
    keys = [noise_keys(seed, position) for seed in seeds for position in positions]
    return torch.tensor(keys, dtype=torch.int32)


def ids(*bounds: int) -> torch.Tensor:
    return torch.arange(*bounds, dtype=torch.int32)[None]


def test_noise_follows_its_definition():
    """The vectors give what plain arithmetic gives, for seeds and positions of any size."""
    seeds, positions = (0, -1, 1 << 62, -(1 << 63)), (0, 8191, 1 << 31)
    actual = gumbel(keys_of(seeds, positions), ids(130)).tolist()
    expected = [[noise(s, p, token) for token in range(130)] for s in seeds for p in positions]
    for actual_row, expected_row in zip(actual, expected, strict=True):
        assert actual_row == pytest.approx(expected_row, rel=1e-5, abs=1e-5)


def test_noise_has_the_gumbel_distribution():
    """The mean is Euler's constant and the variance π²/6."""
    values = gumbel(keys_of(range(64)), ids(49152)).double()
    assert values.mean().item() == pytest.approx(0.5772157, abs=0.005)
    assert values.var().item() == pytest.approx(math.pi**2 / 6, abs=0.01)
    assert values.isfinite().all()


def test_noise_of_tokens_positions_and_seeds_is_independent():
    """It is uncorrelated between neighbouring tokens, blocks, positions and seeds."""
    for keys in (keys_of([7], range(512)), keys_of(range(512), [7])):
        values = gumbel(keys, ids(1024))
        values = (values - values.mean()) / values.std()
        bound = 6 / math.sqrt(values.numel())
        for first, second in (
            (values[:-1], values[1:]),
            (values[:, :-1], values[:, 1:]),
            (values[:, :-64], values[:, 64:]),
            (values[:-1, :-1], values[1:, 1:]),
        ):
            assert abs((first * second).mean().item()) < bound


def test_largest_noise_of_a_block_is_that_of_its_first_token():
    """The time of the first token is the least of its block, and it falls anywhere in it."""
    keys = keys_of(range(500))
    values = gumbel(keys, ids(128)).view(-1, 2, 64)
    times, places = first_times(keys, ids(2))
    assert torch.equal(values.amax(dim=-1), -times.log())
    assert torch.equal(values.argmax(dim=-1), places.long())
    counts = torch.bincount(places.flatten(), minlength=64).double()
    expected = 1000 / 64
    assert ((counts - expected) ** 2 / expected).sum().item() < 63 + 6 * math.sqrt(2 * 63)


def test_delays_of_tokens_do_not_depend_on_their_neighbours():
    """A token has the same delay alone, among others and in blocks."""
    keys = keys_of(range(3))
    together = delays(keys, ids(1000))
    assert torch.equal(delays(keys, ids(1000).view(1, 10, 100)).flatten(1), together)
    for token in (0, 63, 64, 999):
        assert torch.equal(delays(keys, ids(token, token + 1))[:, 0], together[:, token])
