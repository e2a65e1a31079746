"""Several answers to one prompt: the first computes it, the others take its blocks."""

import pytest

from headrace_server.engine.messages import Constraint
from headrace_server.engine.simulated_vocabulary import FAULT_NAN
from tests.server.engine.fake_constraints import FakeCompiler
from tests.server.engine.stepped_engine import SteppedEngine, solo_answer

PROMPT = b"Tell me something short."  # 24 tokens, 6 blocks


def add_candidates(engine, num_candidates=4, prompt=PROMPT, **options):
    options = {"temperature": 1.0, "max_output_tokens": 8} | options
    for i in range(num_candidates):
        leader = None if i == 0 else 0
        engine.add(i, prompt, seed=i, shares_prompt_with=leader, **options)


def solo_answers(num_candidates=4, prompt=PROMPT, max_output_tokens=8):
    options = {"temperature": 1.0, "max_output_tokens": max_output_tokens}
    return [solo_answer(prompt, seed=i, **options) for i in range(num_candidates)]


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_a_prompt_is_computed_once_for_all_candidates(prefix_cache):
    """The others wait for the first and compute only the last block, with the cache or without."""
    engine = SteppedEngine(prefix_cache=prefix_cache, max_num_batched_tokens=16)
    add_candidates(engine)

    assert [engine.step() for _ in range(2)] == [{0: 16}, {0: 8}]
    assert engine.step() == {0: 1, 1: 4, 2: 4, 3: 4}
    engine.run()
    assert [engine.answers[i] for i in range(4)] == solo_answers()
    assert engine.scheduler.stats.num_computed_tokens == 24 + 3 * 4 + 4 * 7


def test_candidates_hold_the_blocks_of_their_prompt_once():
    """Memory is taken for one prompt and for each answer."""
    engine = SteppedEngine(prefix_cache=False, num_blocks=20)
    add_candidates(engine)
    engine.step()
    engine.step()

    assert engine.scheduler.stats.num_running == 4
    # The first has 24 tokens and one more; the others share 5 blocks and have their sixth.
    assert 20 - engine.scheduler.stats.num_free_blocks == 7 + 3


def test_candidates_are_no_hits_of_the_cache():
    """A prompt counts once, whatever its candidates share."""
    engine = SteppedEngine()
    add_candidates(engine)
    engine.run()
    stats = engine.scheduler.stats

    assert (stats.num_prompt_tokens, stats.num_cached_prompt_tokens) == (24, 0)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("num_steps", [0, 1, 2, 3])
def test_when_the_first_is_aborted_another_computes_the_prompt(prefix_cache, num_steps):
    """Candidates do not depend on each other's fate."""
    engine = SteppedEngine(prefix_cache=prefix_cache, max_num_batched_tokens=16)
    add_candidates(engine)
    for _ in range(num_steps):
        engine.step()
    engine.scheduler.abort(0)
    engine.run()

    assert [engine.answers[i] for i in (1, 2, 3)] == solo_answers()[1:]
    assert engine.finishes[0] == ["aborted"]
    if num_steps < 2:
        num_tokens = 16 * num_steps + 24 + 2 * 4 + 3 * 7
        assert engine.scheduler.stats.num_computed_tokens == num_tokens


def test_when_the_first_fails_each_other_is_tried():
    """A prompt that gives no numbers fails every candidate, one after the other."""
    engine = SteppedEngine()
    add_candidates(engine, prompt=[*PROMPT, FAULT_NAN])
    engine.run()

    assert engine.finishes == {i: ["failed"] for i in range(4)}


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_when_the_first_ends_with_its_first_token_the_others_still_run(prefix_cache):
    """An answer of one token leaves its blocks to the cache, or nothing."""
    engine = SteppedEngine(prefix_cache=prefix_cache)
    add_candidates(engine, max_output_tokens=1)
    engine.run()

    assert [engine.answers[i] for i in range(4)] == solo_answers(max_output_tokens=1)


def test_candidates_run_one_by_one_where_there_is_room_for_one():
    """Nobody waits for somebody who waits for memory or for a place in the batch."""
    engine = SteppedEngine(prefix_cache=False, num_blocks=8, max_num_sequences=1)
    add_candidates(engine)
    engine.run()

    assert [engine.answers[i] for i in range(4)] == solo_answers()


def test_others_in_the_queue_do_not_wait_for_a_prompt_that_is_shared():
    """Candidates that wait for the first hold nobody up."""
    engine = SteppedEngine(max_num_batched_tokens=16)
    add_candidates(engine)
    engine.add(9, b"x", caller="other")

    assert list(engine.step()) == [0, 9]


@pytest.mark.parametrize(
    ("options", "first_options"),
    [
        ({"shares_prompt_with": 77}, {}),
        ({"shares_prompt_with": 0, "prompt": b"another prompt of its own"}, {}),
        ({"shares_prompt_with": 0, "cache_identity": "a"}, {"cache_identity": "b"}),
        ({"shares_prompt_with": 0, "num_prompt_top_logprobs": 0}, {}),
    ],
    ids=["stranger", "prompt", "identity", "logprobs"],
)
def test_what_cannot_be_shared_is_computed(options, first_options):
    """A sequence that names one that has gone or has another prompt runs by itself."""
    engine = SteppedEngine(max_num_batched_tokens=64)
    engine.add(0, PROMPT, **first_options)
    engine.add(1, **({"prompt": PROMPT} | options))

    assert engine.step() == {0: 24, 1: len(options.get("prompt", PROMPT))}
    assert engine.run().answers[1] == solo_answer(options.get("prompt", PROMPT))


def test_candidates_with_a_constraint_follow_it_each_by_itself():
    """The prompt and the constraint are waited for, in whatever order they are ready."""
    compiler = FakeCompiler(is_ready=False)
    engine = SteppedEngine(compiler=compiler)
    add_candidates(engine, num_candidates=3, constraint=Constraint("spelt"))

    assert engine.step() == {}
    compiler.is_ready = True
    engine.run()
    assert [bytes(engine.answers[i][:-1]) for i in range(3)] == [b"spelt"] * 3
