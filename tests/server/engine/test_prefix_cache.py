"""What the scheduler takes from the prefix cache and what it leaves there; blocks hold 4 tokens."""

import pytest

from headrace_server.engine.model_runner import RowFault, RowOutput
from headrace_server.engine.simulated_vocabulary import FAULT_NAN
from tests.server.engine.stepped_engine import SteppedEngine, solo_answer

SYSTEM = b"You are of some help. "  # 22 tokens, 5 full blocks


def test_a_prompt_that_begins_alike_is_computed_from_there_on():
    """The full blocks of a common beginning are found, and the answer is the same."""
    engine = SteppedEngine()
    engine.add(0, SYSTEM + b"Why?")
    engine.run()
    engine.add(1, SYSTEM + b"How?")
    first = engine.step()
    engine.run()

    assert first == {1: 26 - 20}
    assert engine.num_cached_tokens == {0: 0, 1: 20}
    assert engine.answers[1] == solo_answer(SYSTEM + b"How?")
    stats = engine.scheduler.stats
    assert (stats.num_prompt_tokens, stats.num_cached_prompt_tokens) == (52, 20)


def test_a_finished_answer_is_found_by_the_next_turn_of_its_chat():
    """Generated blocks are reused like those of a prompt."""
    engine = SteppedEngine()
    engine.add(0, SYSTEM, max_output_tokens=11)
    answer = engine.run().answers[0]
    engine.add(1, [*SYSTEM, *answer, *b"And then?"])
    engine.run()

    assert engine.num_cached_tokens[1] == 32
    assert engine.answers[1] == solo_answer([*SYSTEM, *answer, *b"And then?"])


@pytest.mark.parametrize(("num_tokens", "num_cached"), [(20, 16), (21, 20), (4, 0), (5, 4)])
def test_the_last_token_is_always_computed(num_tokens, num_cached):
    """A prompt that is known as a whole still gives a token."""
    engine = SteppedEngine()
    for sequence_id in range(2):
        engine.add(sequence_id, b"x" * num_tokens)
        engine.run()

    assert engine.num_cached_tokens[1] == num_cached
    assert engine.answers[0] == engine.answers[1] == solo_answer(b"x" * num_tokens)


def test_blocks_are_shared_while_they_are_in_use():
    """Two running sequences hold the blocks of their common beginning once."""
    engine = SteppedEngine(num_blocks=12)
    engine.add(0, SYSTEM + b"a", max_output_tokens=8)
    engine.step()
    engine.add(1, SYSTEM + b"b", max_output_tokens=8)
    engine.step()

    assert engine.scheduler.stats.num_running == 2
    assert 12 - engine.scheduler.stats.num_free_blocks == 5 + 1 + 1
    engine.run()
    assert engine.answers[1] == solo_answer(SYSTEM + b"b", max_output_tokens=8)


def test_another_identity_finds_nothing():
    """What a caller of one cache identity has computed is not there for another."""
    engine = SteppedEngine()
    for sequence_id, identity in enumerate(["a", "b", "a", ""]):
        engine.add(sequence_id, SYSTEM, cache_identity=identity)
        engine.run()

    assert engine.num_cached_tokens == {0: 0, 1: 0, 2: 20, 3: 0}


def test_without_the_cache_nothing_is_found_and_nothing_is_kept():
    """Every prompt is computed as a whole."""
    engine = SteppedEngine(prefix_cache=False)
    for sequence_id in range(2):
        engine.add(sequence_id, SYSTEM)
        engine.run()

    assert engine.num_cached_tokens == {0: 0, 1: 0}
    assert engine.scheduler.stats.num_cached_blocks == 0
    assert engine.answers[0] == engine.answers[1] == solo_answer(SYSTEM)


def test_cached_blocks_are_free_and_the_oldest_give_way():
    """The cache takes no memory from anyone: what was used last is found the longest."""
    engine = SteppedEngine(num_blocks=16)
    for sequence_id in range(4):
        engine.add(sequence_id, bytes([65 + sequence_id]) * 20, max_output_tokens=4)
        engine.run()
    stats = engine.scheduler.stats

    assert (stats.num_free_blocks, stats.num_cached_blocks) == (16, 15)
    engine.add(4, b"D" * 20, max_output_tokens=4)
    engine.add(5, b"A" * 20, max_output_tokens=4)
    engine.run()
    assert (engine.num_cached_tokens[4], engine.num_cached_tokens[5]) == (16, 0)


def test_the_beginning_of_a_prompt_outlives_its_end():
    """Of one sequence the last blocks give way first: more prompts begin alike than go on alike."""
    engine = SteppedEngine(num_blocks=10)
    engine.add(0, SYSTEM + b"0123456789", max_output_tokens=1)
    engine.run()
    engine.add(1, b"z" * 18, max_output_tokens=1)
    engine.run()
    engine.add(2, SYSTEM + b"0123456789", max_output_tokens=1)
    engine.run()

    assert engine.num_cached_tokens[2] == 20


def test_blocks_of_a_failed_sequence_are_never_found():
    """What a sequence without numbers has computed is computed anew, in every chunk of it."""
    engine = SteppedEngine(max_num_batched_tokens=8)
    engine.add(0, [*SYSTEM, FAULT_NAN])
    engine.step()
    engine.add(1, SYSTEM)
    engine.run()

    assert engine.finishes[0] == ["failed"]
    assert engine.num_cached_tokens[1] == 0
    assert engine.answers[1] == solo_answer(SYSTEM)


def test_a_shared_block_is_found_no_more_once_a_sequence_failed_with_it():
    """A doubtful block leaves the cache; who has it already goes on."""
    engine = SteppedEngine()
    engine.add(0, SYSTEM)
    engine.step()
    engine.add(1, [*SYSTEM, FAULT_NAN])
    engine.step()
    engine.add(2, SYSTEM)
    engine.run()

    assert engine.num_cached_tokens == {0: 0, 1: 20, 2: 0}
    assert engine.finishes[1] == ["failed"]
    assert engine.answers[0] == engine.answers[2] == solo_answer(SYSTEM)


def test_a_chunk_that_raises_fails_its_sequence():
    """A row that chooses nothing yet is not taken as computed when the model raised."""
    engine = SteppedEngine(max_num_batched_tokens=8)
    engine.add(0, SYSTEM)
    step = engine.scheduler.schedule()
    assert step.rows[0].sampling is None
    engine.scheduler.commit(step, [RowFault.RAISED])
    engine.scheduler.check_integrity()

    assert [each.finish for each in engine.scheduler.take_outputs()] == [None, "failed"]
    assert engine.scheduler.stats.num_cached_blocks == 0


def test_blocks_of_an_aborted_answer_can_be_found():
    """What was computed before an abort is of use to the next attempt."""
    engine = SteppedEngine()
    engine.add(0, SYSTEM)
    engine.step()
    engine.step(during_forward=lambda: engine.scheduler.abort(0))
    engine.add(1, SYSTEM)
    engine.run()

    assert engine.num_cached_tokens[1] == 20


def test_prompts_that_come_together_share_as_soon_as_the_first_is_through():
    """A prompt that waits in the batch behind another skips what that has computed meanwhile."""
    engine = SteppedEngine(max_num_batched_tokens=16, num_blocks=100)
    for sequence_id in range(4):
        engine.add(sequence_id, b"%d" % 0 + SYSTEM * 2 + b"%d" % sequence_id)
    engine.run()

    # The first takes 46 tokens, each of the others the 2 behind 11 blocks, and the second also
    # the 2 for which there was room beside the end of the first.
    assert engine.scheduler.stats.num_computed_tokens == 46 + 3 * 2 + 2 + 4 * 19
    for sequence_id in range(4):
        assert engine.answers[sequence_id] == solo_answer(b"0" + SYSTEM * 2 + b"%d" % sequence_id)


def next_starts(engine):
    """Where the rows of the next step begin, by the ids of their sequences."""
    step = engine.scheduler.schedule()
    engine.scheduler.commit(step, engine.runner.forward(step.rows))
    return {row.sequence_id: row.start for row in step.rows}


def test_a_preempted_sequence_finds_its_own_blocks():
    """Neither the prompt nor the output that was computed is computed again."""
    engine = SteppedEngine(num_blocks=16)
    engine.add(0, b"a" * 20, max_output_tokens=28)
    engine.add(1, b"b" * 20, max_output_tokens=28)
    while engine.scheduler.stats.num_preemptions == 0:
        engine.step()
    num_blocks = (20 + len(engine.answers[1]) - 1) // 4
    engine.scheduler.abort(0)

    # One block went to the sequence for which it gave way.
    assert next_starts(engine) == {1: (num_blocks - 1) * 4}
    engine.run()
    assert engine.answers[1] == solo_answer(b"b" * 20, max_output_tokens=28)


def test_a_prompt_that_is_preempted_before_its_first_token_finds_its_blocks():
    """What no token vouches for yet is there for the sequence itself, and for nobody else."""
    engine = SteppedEngine(num_blocks=16, max_prefill_chunk=2)
    engine.add(0, b"a" * 7, max_output_tokens=40)
    engine.step()
    engine.add(1, b"b" * 44, max_output_tokens=1)
    while engine.scheduler.stats.num_preemptions == 0:
        engine.step()
    engine.scheduler.abort(0)
    engine.add(2, b"b" * 12, max_output_tokens=1)

    assert next_starts(engine) == {1: 24, 2: 0}
    engine.run()
    assert engine.num_cached_tokens[1] == 0
    assert engine.answers[1] == solo_answer(b"b" * 44, max_output_tokens=1)


def test_a_model_that_answers_nonsense_leaves_nothing_in_the_cache():
    """A token outside the vocabulary vouches for nothing."""
    engine = SteppedEngine()
    engine.add(0, SYSTEM)
    step = engine.scheduler.schedule()
    engine.scheduler.commit(step, [RowOutput(-1)])

    assert engine.scheduler.stats.num_cached_blocks == 0
