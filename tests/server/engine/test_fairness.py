"""Callers, priorities and prompts that share the engine, seen through its steps."""

from tests.server.engine.stepped_engine import SteppedEngine


def test_a_crowd_of_one_caller_holds_another_up_by_about_one_admission():
    """A single request is among the next two that come into the batch."""
    engine = SteppedEngine(max_num_sequences=4, num_blocks=100)
    for sequence_id in range(1000):
        engine.add(sequence_id, b"%d" % sequence_id, caller="crowd", max_output_tokens=6)
    for _ in range(20):
        engine.step()
    engine.add(5000, b"single", caller="single", max_output_tokens=6)
    others_started = sum(engine.starts.values())
    while not engine.starts[5000]:
        engine.step()

    assert sum(engine.starts.values()) - others_started <= 4


def test_a_higher_priority_is_admitted_first():
    """Whoever has priority is next, also behind a long queue."""
    engine = SteppedEngine(max_num_sequences=1)
    for sequence_id in range(5):
        engine.add(sequence_id, max_output_tokens=2)
    engine.step()
    engine.add(9, max_output_tokens=2, priority=1)
    engine.run()

    assert list(engine.finishes) == [0, 9, 1, 2, 3, 4]


def test_prompts_beside_answers_take_a_bounded_part_of_the_step():
    """Eight prompts at once hold the answers up no more than one does."""
    engine = SteppedEngine(
        num_blocks=400, max_num_sequences=16, max_num_batched_tokens=256, max_prefill_chunk=16
    )
    engine.add(0, b"ab", max_output_tokens=60)
    engine.step()
    for sequence_id in range(1, 9):
        engine.add(sequence_id, b"%d" % sequence_id * 40)
    sizes = []
    while len(engine.answers[0]) < 60:
        rows = engine.step()
        sizes.append(sum(num_tokens for num_tokens in rows.values() if num_tokens > 1))

    assert max(sizes) == 16
    assert engine.answers[8]


def test_a_short_prompt_does_not_wait_for_a_long_one():
    """A prompt of a block gets through in the next step, and the long one keeps going."""
    engine = SteppedEngine(num_blocks=400, max_num_batched_tokens=64, max_prefill_chunk=16)
    engine.add(0, b"ab", max_output_tokens=60)
    engine.step()
    engine.add(1, b"l" * 500)
    engine.step()
    engine.add(2, b"sht")

    # 13 are left for the long one, which stops at the end of a block.
    assert engine.step() == {0: 1, 1: 12, 2: 3}


def test_short_prompts_do_not_starve_a_long_one():
    """However many come, the first in line computes half of what there is."""
    engine = SteppedEngine(
        num_blocks=400, max_num_sequences=64, max_num_batched_tokens=256, max_prefill_chunk=16
    )
    engine.add(0, b"ab", max_output_tokens=100)
    engine.step()
    engine.add(1, b"l" * 300)
    for sequence_id in range(2, 22):
        engine.add(sequence_id, b"%04d" % sequence_id * 4, max_output_tokens=1)
        rows = engine.step()
        assert rows[1] >= 8
    engine.run()

    assert engine.answers[1]


def test_a_short_prompt_gets_past_long_ones_of_its_own_caller():
    """What waits behind prompts that get nothing yet comes into the batch at once."""
    engine = SteppedEngine(num_blocks=900, max_num_batched_tokens=64, max_prefill_chunk=16)
    for sequence_id in range(5):
        engine.add(sequence_id, b"%d" % sequence_id * 500)
    engine.step()
    engine.add(9, b"sht", max_output_tokens=1)

    assert engine.step()[9] == 3
    assert not engine.starts[4]


def test_long_prompts_keep_their_turns_while_short_ones_get_past_them():
    """However many short prompts come, long ones are computed one after the other."""
    engine = SteppedEngine(num_blocks=900, max_num_batched_tokens=64, max_prefill_chunk=16)
    for sequence_id in range(4):
        engine.add(sequence_id, b"%d" % sequence_id * 200, max_output_tokens=1)
    sequence_ids = iter(range(10, 200))
    while not engine.answers[3]:
        engine.add(next(sequence_ids), b"%04d" % 1 * 8, max_output_tokens=1)
        engine.step()

    assert [each for each in engine.finishes if each < 4] == [0, 1, 2, 3]


def test_nothing_gets_past_a_prompt_that_lacks_memory():
    """A long prompt that waits for KV blocks is not kept waiting by short ones."""
    engine = SteppedEngine(num_blocks=12, max_num_batched_tokens=256)
    block_size = engine.runner.description.block_size
    engine.add(0, b"0" * (6 * block_size), max_output_tokens=20)
    engine.step()
    engine.add(1, b"1" * (8 * block_size), max_output_tokens=1)
    engine.add(2, b"2", max_output_tokens=1)
    engine.run()

    assert list(engine.finishes) == [0, 1, 2]
