"""All rules together: in their order, and by nothing but the row."""

import math
import random

import pytest
import torch

from headrace_server.engine.model_runner import RowFault, RowOutput
from headrace_server.models.sampling.logprobs import token_logprobs
from headrace_server.models.sampling.sampler import sample
from tests.server.models.sampling.reference import ReadyMask, chosen_token, make_row


def random_row(generator: random.Random, vocabulary_size: int):
    """A row in which each rule acts now and then."""

    def now_and_then(values, otherwise):
        return generator.choice(values) if generator.random() < 0.4 else otherwise

    ids = range(vocabulary_size)
    share = generator.choice([0.01, 0.5, 0.99])
    allowed = [token for token in ids if generator.random() < share] or [0]
    return make_row(
        position=generator.randrange(10_000),
        seed=generator.randrange(-(2**63), 2**63),
        temperature=generator.choice([0.0, 0.3, 1.0, 2.0]),
        top_k=now_and_then([1, 40, 64, 500], None),
        top_p=now_and_then([0.1, 0.5, 0.95], 1.0),
        min_p=now_and_then([0.05, 0.3], 0.0),
        logit_bias=now_and_then(
            [{token: generator.uniform(-100, 100) for token in allowed[:9]}], {}
        ),
        banned_token_ids=now_and_then([generator.sample(ids, 3)], ()),
        presence_penalty=now_and_then([-2.0, 1.0], 0.0),
        frequency_penalty=now_and_then([-1.0, 0.5], 0.0),
        repetition_penalty=now_and_then([0.5, 1.2], 1.0),
        prompt_token_ids=generator.choices(ids, k=100),
        output_token_ids=generator.choices(ids, k=30),
        mask=now_and_then([ReadyMask(allowed, vocabulary_size)], None),
        num_top_logprobs=now_and_then([0, 5, 20], None),
    )


@pytest.mark.parametrize("vocabulary_size", [97, 3000, 9000])
def test_rows_with_any_rules_choose_what_is_defined_alone_and_in_any_batch(vocabulary_size):
    """A row, beside any others in any order, chooses and tells what it does alone, to the bit."""
    generator = random.Random(vocabulary_size)
    for _ in range(4):
        rows = [random_row(generator, vocabulary_size) for _ in range(12)]
        logits = torch.randn(len(rows), vocabulary_size) * generator.choice([0.5, 3.0, 10.0])
        alone = [sample(logits[[index]], [row])[0] for index, row in enumerate(rows)]
        assert [output.token_id for output in alone] == [
            chosen_token(*pair) for pair in zip(logits.numpy(), rows, strict=True)
        ]
        order = generator.sample(range(len(rows)), len(rows))
        for batch in (order, order[:5], order[3:]):
            together = sample(logits[batch], [rows[index] for index in batch])
            assert together == [alone[index] for index in batch]


def test_threads_change_nothing():
    """The number of threads has no say in what is chosen and told."""
    generator = random.Random(1)
    rows = [random_row(generator, 20_000) for _ in range(24)]
    logits = torch.randn(len(rows), 20_000) * 3
    num_threads = torch.get_num_threads()
    outputs = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            outputs.append(sample(logits.clone(), rows))
    finally:
        torch.set_num_threads(num_threads)
    assert outputs[1:] == outputs[:1] * 2


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_bias_decides_where_it_is_large(temperature):
    """100 on one id, and -100 on all others, choose that id whatever the model says."""
    logits = torch.tensor([[50.0, 0.0, 40.0, 0.0]])
    for logit_bias in ({1: 100.0}, {0: -100.0, 2: -100.0, 3: -100.0}):
        row = make_row(temperature=temperature, logit_bias=logit_bias)
        assert sample(logits.clone(), [row]) == [RowOutput(1)]


def test_bias_acts_before_the_repetition_penalty():
    """A bias that turns the sign of a logit turns what the penalty does to it."""
    logits = torch.tensor([[-1.0, 1.0]])
    row = make_row(
        temperature=0.0,
        logit_bias={0: 3.0},
        repetition_penalty=4.0,
        output_token_ids=[0],
    )
    assert sample(logits, [row]) == [RowOutput(1)]  # (-1 + 3) / 4 < 1 < -1 * 4 + 3 + 4


def test_logprobs_are_of_the_raw_logits():
    """Bias, penalties, masks and temperature change what is chosen, not what is told of it."""
    logits = torch.randn(3, 500)
    rows = [
        make_row(logit_bias={7: 100.0}, num_top_logprobs=3),
        make_row(),
        make_row(
            temperature=0.0,
            mask=ReadyMask([9], 500),
            presence_penalty=2.0,
            output_token_ids=[9],
            num_top_logprobs=0,
        ),
    ]
    told = token_logprobs(logits[[0, 2]], [7, 9], [3, 0])
    outputs = sample(logits.clone(), rows)
    assert outputs[0] == RowOutput(7, told[0])
    assert outputs[1].logprobs is None
    assert outputs[2] == RowOutput(9, told[1])


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_to_which_nothing_is_allowed_faults_alone(temperature):
    """A mask and bans that leave no token are the row's own fault, and no other's."""
    logits = torch.randn(4, 100)
    only_5 = ReadyMask([5], 100)
    rows = [
        make_row(temperature=temperature, mask=ReadyMask([], 100)),
        make_row(temperature=temperature, mask=only_5),
        make_row(temperature=temperature, mask=only_5, banned_token_ids=[5], num_top_logprobs=2),
        make_row(temperature=temperature, banned_token_ids=range(100)),
    ]
    assert sample(logits, rows) == [
        RowFault.NOTHING_ALLOWED,
        RowOutput(5),
        RowFault.NOTHING_ALLOWED,
        RowFault.NOTHING_ALLOWED,
    ]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_a_number_faults_its_row_alone_under_any_rules(bad):
    """Rules neither hide a bad logit nor carry it to other rows."""
    generator = random.Random(2)
    rows = [random_row(generator, 300) for _ in range(9)]
    logits = torch.randn(len(rows), 300)
    healthy = sample(logits.clone(), rows)
    logits[4] = bad
    expected = [*healthy[:4], RowFault.NOT_A_NUMBER, *healthy[5:]]
    assert sample(logits, rows) == expected


def test_the_mask_is_waited_for_once_and_last():
    """All else that changes logits is done when the first mask is waited for."""
    logits = torch.zeros(1, 64)
    seen = []

    class LateMask(ReadyMask):
        def wait(self):
            seen.append(logits.clone())
            return super().wait()

    row = make_row(
        temperature=0.0,
        logit_bias={3: 2.0},
        presence_penalty=1.0,
        output_token_ids=[3, 4],
        mask=LateMask([3], 64),
    )
    assert sample(logits, [row]) == [RowOutput(3)]
    assert [changed[0, [3, 4, 5]].tolist() for changed in seen] == [[1.0, -1.0, 0.0]]
