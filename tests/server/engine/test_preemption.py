"""More sequences than memory: answers stay the same, and there is always progress."""

import pytest

from tests.server.engine.stepped_engine import SteppedEngine, solo_answer

OPTIONS = {"max_output_tokens": 24, "temperature": 1.0}
PROMPTS = [b"You help. %d" % (i // 4) + b"?" * (i % 7) for i in range(64)]


@pytest.fixture(scope="module")
def answers():
    """What each of 64 sequences answers alone; some prompts begin alike."""
    return [solo_answer(prompt, seed=i, **OPTIONS) for i, prompt in enumerate(PROMPTS)]


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("num_blocks", [11, 40, 100])
def test_64_sequences_in_a_tiny_memory_answer_as_if_alone(answers, prefix_cache, num_blocks):
    """However often they give way, with the cache or without, nobody gets a foreign block."""
    engine = SteppedEngine(
        num_blocks=num_blocks,
        max_num_sequences=64,
        max_num_batched_tokens=96,
        max_prefill_chunk=16,
        prefix_cache=prefix_cache,
    )
    for sequence_id, prompt in enumerate(PROMPTS):
        engine.add(sequence_id, prompt, seed=sequence_id, **OPTIONS)
    engine.run(max_num_steps=3000)

    assert engine.scheduler.stats.num_preemptions > 0
    assert [engine.answers[i] for i in range(64)] == answers
    assert engine.starts == dict.fromkeys(range(64), 1)


@pytest.mark.parametrize("prefix_cache", [True, False])
def test_two_sequences_that_do_not_fit_together_finish_one_after_the_other(prefix_cache):
    """The older one never gives way, so they do not take the memory from each other in turn."""
    engine = SteppedEngine(num_blocks=12, prefix_cache=prefix_cache)
    engine.add(0, b"x" * 10, max_output_tokens=38)
    engine.add(1, b"y" * 10, max_output_tokens=38)
    num_tokens = 0
    while not engine.finishes[0]:
        engine.step()
        num_tokens += 1
        assert len(engine.answers[0]) == num_tokens
    engine.run()

    assert engine.answers[1] == solo_answer(b"y" * 10, max_output_tokens=38)


def test_the_lowest_priority_gives_way_first_and_of_it_the_newest():
    """A sequence of higher priority keeps its place, however late it came."""
    engine = SteppedEngine(num_blocks=12)
    for sequence_id, priority in enumerate([0, 0, 1]):
        engine.add(sequence_id, b"x%d" % sequence_id * 5, max_output_tokens=30, priority=priority)
        engine.step()
    while engine.scheduler.stats.num_preemptions == 0:
        rows = engine.step()

    assert sorted(rows) == [0, 2]
    while engine.scheduler.stats.num_preemptions == 1:
        rows = engine.step()
    assert sorted(rows) == [2]
    engine.run()
    assert next(iter(engine.finishes)) == 2


def test_a_later_arrival_of_the_same_priority_never_pushes_an_older_one_out():
    """The order of admission lasts as long as the sequence, also when it is admitted again."""
    engine = SteppedEngine(num_blocks=20, max_num_sequences=3)
    for sequence_id in range(12):
        engine.add(sequence_id, b"p%02d" % sequence_id * 3, max_output_tokens=25)
    engine.run()

    assert engine.scheduler.stats.num_preemptions > 0
    assert list(engine.finishes) == sorted(engine.finishes)
