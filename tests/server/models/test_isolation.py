"""Answers of the default model in a crowd are those of the same requests alone, to the token."""

import random
from functools import partial

import pytest
import torch

from headrace_server.models.kernels.library import load_kernels
from headrace_server.models.overlapping_runner import OverlappingTorchRunner
from tests.server.engine.held_runner import HeldRunner
from tests.server.engine.stepped_engine import SteppedEngine

pytestmark = [
    pytest.mark.model,
    pytest.mark.timeout(600),
    # In plain torch a row depends on its batch by the last bits of its sums.
    pytest.mark.skipif(load_kernels() is None, reason="no compiled kernels here"),
]

NUM_ANSWERS = 64
NUM_LONG_ANSWERS = 20
NUM_NEIGHBOURS = 16
LONG_ANSWER_TOKENS = 24
PLENTY_OF_BLOCKS = 1024
SCARCE_BLOCKS = 40
END_OF_TEXT = 2
SAMPLINGS = [
    {"temperature": 0.0},
    {"temperature": 0.9, "top_p": 0.95},
    {"temperature": 1.0, "top_k": 40},
    {"temperature": 1.3, "min_p": 0.05},
]
PENALTIES = {5: {"repetition_penalty": 1.2}, 40: {"frequency_penalty": 0.5}}


def make_requests():
    """Prompts of which many begin alike; the first answers and those of neighbours are long."""
    chance = random.Random(64)

    def draw_tokens(num_tokens):
        return [chance.randrange(17, 49152) for _ in range(num_tokens)]

    beginnings = [draw_tokens(num_tokens) for num_tokens in (0, 16, 24)]
    is_short = range(NUM_LONG_ANSWERS, NUM_ANSWERS)
    return [
        {
            "prompt": [*chance.choice(beginnings), *draw_tokens(chance.randrange(1, 9))],
            "seed": chance.getrandbits(62),
            "max_output_tokens": chance.randrange(2, 5) if i in is_short else LONG_ANSWER_TOKENS,
            "stop_token_ids": [END_OF_TEXT],
            **SAMPLINGS[i % len(SAMPLINGS)],
            **PENALTIES.get(i, {}),
        }
        for i in range(NUM_ANSWERS + NUM_NEIGHBOURS)
    ]


@pytest.fixture(scope="module")
def one_thread():
    """Threads that spin for each other take minutes where cores are shared."""
    num_threads = torch.get_num_threads()
    yield 1
    torch.set_num_threads(num_threads)


@pytest.fixture(scope="module")
def runner(load_runner, one_thread):
    """The default model with small blocks, so that answers soon need another."""
    return load_runner("default", num_threads=one_thread, block_size=8, kv_cache_bytes=256 << 20)


@pytest.fixture(scope="module")
def requests():
    return make_requests()


@pytest.fixture(scope="module")
def answers(runner, requests):
    """What each request is answered with nothing cached and nothing beside it."""
    return [answer_alone(runner, request) for request in requests[:NUM_ANSWERS]]


def answer_alone(runner, request):
    engine = SteppedEngine(
        runner=runner, num_blocks=PLENTY_OF_BLOCKS, prefix_cache=False, is_checked=False
    )
    engine.add(0, **request)
    return engine.run().answers[0]


def answer_in_a_crowd(engine, requests):
    """Answer all at once; the neighbours leave one by one. Returns the most rows of a step."""
    for sequence_id in interleaved_ids():
        engine.add(sequence_id, **requests[sequence_id])
    num_rows = [
        len(engine.step(during_forward=partial(engine.scheduler.abort, neighbour)))
        for neighbour in range(NUM_ANSWERS, NUM_ANSWERS + NUM_NEIGHBOURS)
    ]
    engine.run()
    return max(num_rows)


def interleaved_ids():
    """The neighbours among the others, so that they are in the batch when they leave."""
    share = NUM_ANSWERS // NUM_NEIGHBOURS
    for index in range(NUM_NEIGHBOURS):
        yield NUM_ANSWERS + index
        yield from range(index * share, (index + 1) * share)


def check(engine, answers, prefix_cache):
    """Each answer is the one alone, neighbours left in mid-stream, and every block is free."""
    assert [engine.answers[index] for index in range(NUM_ANSWERS)] == answers
    neighbours = range(NUM_ANSWERS, NUM_ANSWERS + NUM_NEIGHBOURS)
    assert any(engine.answers[i] and engine.finishes[i] == ["aborted"] for i in neighbours)
    stats = engine.scheduler.stats
    assert (stats.num_cached_prompt_tokens > 0) == prefix_cache
    assert stats.num_free_blocks == stats.num_total_blocks


@pytest.mark.parametrize("prefix_cache", [True, False], ids=["cache", "no cache"])
def test_a_full_batch_answers_as_if_each_were_alone(runner, requests, answers, prefix_cache):
    """All answers run in the same steps, and neighbours leave in mid-stream."""
    engine = SteppedEngine(
        runner=runner,
        num_blocks=PLENTY_OF_BLOCKS,
        max_num_sequences=NUM_ANSWERS + NUM_NEIGHBOURS,
        max_num_batched_tokens=2048,
        prefix_cache=prefix_cache,
    )
    # What the crowd finds in the cache, for its own prompts come all at once.
    for sequence_id, request in enumerate(requests[:8], start=len(requests)):
        engine.add(sequence_id, **request | {"max_output_tokens": 1})
    engine.run()
    assert answer_in_a_crowd(engine, requests) >= NUM_ANSWERS
    check(engine, answers, prefix_cache)


@pytest.mark.parametrize("prefix_cache", [True, False], ids=["cache", "no cache"])
def test_answers_that_give_way_and_come_back_are_the_same(runner, requests, answers, prefix_cache):
    """In a memory for a fraction of them answers are preempted and computed again."""
    engine = scarce_engine(runner, prefix_cache)
    answer_in_a_crowd(engine, requests)
    assert engine.scheduler.stats.num_preemptions > 0
    check(engine, answers, prefix_cache)


@pytest.mark.parametrize("overlapping", [partial(HeldRunner, late_every=5), OverlappingTorchRunner])
def test_steps_that_overlap_change_no_answer(runner, requests, answers, overlapping):
    """The same with each step begun before the last is waited for, and some tokens late."""
    engine = scarce_engine(overlapping(runner), prefix_cache=True)
    answer_in_a_crowd(engine, requests)
    assert engine.scheduler.stats.num_preemptions > 0
    check(engine, answers, prefix_cache=True)


def scarce_engine(runner, prefix_cache):
    return SteppedEngine(
        runner=runner,
        num_blocks=SCARCE_BLOCKS,
        max_num_sequences=NUM_ANSWERS,
        max_num_batched_tokens=128,
        max_prefill_chunk=61,
        prefix_cache=prefix_cache,
    )
