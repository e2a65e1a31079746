"""What the sampler chooses: by definition, in distribution, and by nothing but the row."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_server.engine.model_runner import RowFault, RowSampling
from headrace_server.models import sampler
from headrace_server.models.noise import gumbel, noise_keys
from headrace_server.models.sampler import choose_tokens


def row(**changes) -> RowSampling:
    values = {
        "position": 0,
        "temperature": 1.0,
        "top_k": None,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": 0,
        "banned_token_ids": (),
    }
    return RowSampling(**(values | changes))


def kept_by_definition(logits: torch.Tensor, sampling: RowSampling) -> set[int]:
    """The tokens that may be chosen, one rule after the other, in double precision."""
    order = sorted(range(len(logits)), key=lambda token: (-logits[token].item(), token))
    order = order[: sampling.top_k]
    scores = torch.tensor([logits[token].item() for token in order], dtype=torch.float64)
    probabilities = ((scores - scores.max()) / sampling.temperature).softmax(0).tolist()
    kept, mass = [], 0.0
    for token, probability in zip(order, probabilities, strict=True):
        if kept and mass >= sampling.top_p:
            break
        kept.append((token, probability))
        mass += probability
    largest = kept[0][1]
    return {token for token, probability in kept if probability >= sampling.min_p * largest}


def chosen_by_definition(logits: torch.Tensor, sampling: RowSampling) -> int:
    """The token of the largest sum of score and noise among those kept."""
    kept = sorted(kept_by_definition(logits, sampling))
    keys = torch.tensor([noise_keys(sampling.seed, sampling.position)], dtype=torch.int32)
    noise = gumbel(keys, torch.tensor(kept, dtype=torch.int32))[0]
    scores = (logits[kept] - logits.max()) / sampling.temperature
    return kept[int((scores + noise).argmax())]


samplings = st.builds(
    row,
    position=st.integers(0, 10_000),
    temperature=st.sampled_from([0.2, 0.7, 1.0, 2.0]),
    top_k=st.none() | st.integers(1, 3000),
    top_p=st.sampled_from([0.01, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    seed=st.integers(-(2**63), 2**63 - 1),
)


def logits_of(seed: int, vocabulary_size: int, spread: float, steps: int | None) -> torch.Tensor:
    """Random logits; with `steps`, so coarse that many are equal."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(vocabulary_size, generator=generator) * spread
    return logits if steps is None else (logits * steps).round() / steps


@given(
    sampling=samplings,
    seed=st.integers(0, 1000),
    vocabulary_size=st.sampled_from([3, 64, 65, 2000]),
    spread=st.sampled_from([0.0, 0.5, 3.0, 20.0]),
    steps=st.sampled_from([None, 2]),
)
@settings(max_examples=300, deadline=None)
def test_choice_follows_the_definition(sampling, seed, vocabulary_size, spread, steps):
    """Top-k, top-p and min-p keep what they are defined to, through every slice and with ties."""
    logits = logits_of(seed, vocabulary_size, spread, steps)
    expected = chosen_by_definition(logits, sampling)
    assert choose_tokens(logits[None].clone(), [sampling]) == [expected]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_choice_depends_on_its_row_alone(data):
    """A row in any batch, beside any other settings, chooses what it chooses alone."""
    rows = data.draw(st.lists(samplings, min_size=2, max_size=6))
    logits = torch.stack([logits_of(seed, 3000, 2.0, None) for seed in range(len(rows))])
    alone = [choose_tokens(logits[i : i + 1].clone(), [rows[i]])[0] for i in range(len(rows))]
    order = data.draw(st.permutations(range(len(rows))))
    together = choose_tokens(logits[order].clone(), [rows[i] for i in order])
    assert together == [alone[i] for i in order]


@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 1.0},
        {"temperature": 0.5},
        {"temperature": 1.5, "top_k": 5},
        {"temperature": 1.0, "top_p": 0.8},
        {"temperature": 1.0, "min_p": 0.2},
        {"temperature": 0.8, "top_k": 6, "top_p": 0.9, "min_p": 0.05},
    ],
)
@pytest.mark.parametrize("varied", ["seed", "position"])
def test_choices_are_distributed_as_the_softmax(sampling, varied):
    """Over many seeds, and over many positions of one seed, frequencies fit the softmax."""
    num_draws = 20_000
    logits = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0])
    rows = [row(**sampling, **{varied: index}) for index in range(num_draws)]
    chosen = choose_tokens(logits.repeat(num_draws, 1), rows)
    kept = sorted(kept_by_definition(logits, rows[0]))
    expected = (logits[kept] / rows[0].temperature).softmax(0).double() * num_draws
    counts = torch.bincount(torch.tensor(chosen), minlength=10)[kept].double()
    assert counts.sum() == num_draws
    chi_square = ((counts - expected) ** 2 / expected).sum().item()
    degrees = len(kept) - 1
    # Far beyond what chance gives: six standard deviations over the mean of chi-square.
    assert chi_square < degrees + 6 * math.sqrt(2 * degrees)


def test_choices_of_neighbouring_tokens_and_positions_are_independent():
    """Noise is uncorrelated between positions, between tokens and between seeds."""
    positions = torch.tensor(
        [noise_keys(7, position) for position in range(512)], dtype=torch.int32
    )
    seeds = torch.tensor([noise_keys(seed, 7) for seed in range(512)], dtype=torch.int32)
    for keys in (positions, seeds):
        noise = gumbel(keys, torch.arange(512, dtype=torch.int32))
        noise = (noise - noise.mean()) / noise.std()
        along_rows = (noise[:-1] * noise[1:]).mean().item()
        along_tokens = (noise[:, :-1] * noise[:, 1:]).mean().item()
        bound = 6 / math.sqrt(noise.numel())
        assert abs(along_rows) < bound
        assert abs(along_tokens) < bound


def test_noise_has_the_gumbel_distribution():
    """The mean is Euler's constant and the variance π²/6."""
    keys = torch.tensor([noise_keys(seed, 0) for seed in range(64)], dtype=torch.int32)
    noise = gumbel(keys, torch.arange(49152, dtype=torch.int32)).double()
    assert noise.mean().item() == pytest.approx(0.5772157, abs=0.005)
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, abs=0.01)
    assert noise.isfinite().all()


def test_same_seed_same_choice_and_other_seed_other_choices():
    """A seed repeats a choice for ever; seeds differ in all of their 64 bits."""
    logits = torch.zeros(1, 50_000)
    seeds = [0, 1, -1, 1 << 32, 1 << 62, -(1 << 63)]
    chosen = [choose_tokens(logits.clone(), [row(seed=seed)])[0] for seed in seeds]
    assert len(set(chosen)) == len(seeds)
    assert chosen == [choose_tokens(logits.clone(), [row(seed=seed)])[0] for seed in seeds]
    # Written down, so that answers stay the same from release to release.
    assert chosen[:3] == [17713, 44976, 2989]


@pytest.mark.parametrize("temperature", [0.0, 1e-45, 1e-38, 1e-31])
def test_no_temperature_takes_the_most_likely(temperature):
    """Temperature 0, and one that would overflow, is argmax; of equals the first."""
    logits = torch.tensor([[0.0, 3.0, 80000.0, 80000.0, -1e30]])
    for changes in ({}, {"top_k": 4}, {"top_p": 0.5}, {"min_p": 0.1}):
        assert choose_tokens(logits.clone(), [row(temperature=temperature, **changes)]) == [2]


def test_small_temperatures_do_not_overflow():
    """Large logits over a small temperature leave the most likely token."""
    logits = torch.tensor([[0.0, 1e30, 2e30]])
    for changes in ({}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.1}):
        assert choose_tokens(logits.clone(), [row(temperature=1e-12, **changes)]) == [2]


def test_banned_ids_are_never_chosen():
    """A ban holds for its row alone, for argmax and for draws."""
    logits = torch.tensor([9.0, 8.0, 1.0, 0.0]).repeat(4, 1)
    rows = [
        row(temperature=0.0, banned_token_ids=(0,)),
        row(temperature=0.0),
        row(top_k=1, banned_token_ids=[1, 0]),
        row(temperature=0.0, banned_token_ids=(0, 1, 2)),
    ]
    assert choose_tokens(logits, rows) == [1, 0, 2, 3]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("changes", [{"temperature": 0.0}, {}, {"top_p": 0.9}, {"top_k": 5}])
def test_what_is_not_a_number_faults_its_row_alone(bad, changes):
    """NaN and infinity end their row; the neighbours choose as ever."""
    logits = torch.stack([logits_of(seed, 500, 2.0, None) for seed in range(3)])
    rows = [row(seed=seed, **changes) for seed in range(3)]
    healthy = choose_tokens(logits.clone(), rows)
    logits[1, 77] = bad
    assert choose_tokens(logits, rows) == [healthy[0], RowFault.NOT_A_NUMBER, healthy[2]]


def test_most_rows_are_settled_by_the_narrow_slice(monkeypatch):
    """A peaked row under top-p, and top-k inside the slice, never look at the whole vocabulary."""
    widths = []
    most_likely = sampler._most_likely

    def spy(logits, width):
        widths.append((len(logits), width))
        return most_likely(logits, width)

    monkeypatch.setattr(sampler, "_most_likely", spy)
    logits = logits_of(0, 50_000, 1.0, None).repeat(3, 1)
    logits[:, 5] = 20.0
    choose_tokens(logits, [row(top_p=0.9), row(top_k=40), row(top_p=0.95, min_p=0.05)])
    assert widths == [(3, 64)]
