"""Steps that are begun before the last is waited for: the same answers, and nothing lost."""

import pytest

from headrace_server.engine.messages import Constraint
from headrace_server.engine.simulated_vocabulary import FAULT_NAN, FAULT_RAISE
from tests.server.engine.fake_constraints import FakeCompiler
from tests.server.engine.held_runner import HeldRunner
from tests.server.engine.stepped_engine import (
    BLOCK_SIZE,
    SteppedEngine,
    add_sequence,
    simulated_runner,
    solo_answer,
    solo_engine,
)
from tests.server.engine.test_loop import running_loop

LONG = {"max_output_tokens": 60, "stop_token_ids": []}
LIKELY_ENDS = [97, 98, 99, 32]


def overlapping_engine(num_blocks=64, late_every=None, **options):
    runner = HeldRunner(simulated_runner(num_blocks), late_every)
    return SteppedEngine(runner=runner, num_blocks=num_blocks, **options)


def test_each_step_of_an_answer_is_begun_before_the_last_is_waited_for():
    """All tokens but the first are computed by rows that await them, none of them in vain."""
    engine = overlapping_engine()
    engine.add(0, max_output_tokens=12, stop_token_ids=[])
    engine.run()

    assert engine.answers[0] == solo_answer(max_output_tokens=12, stop_token_ids=[])
    assert engine.runner.num_awaited_rows == 11
    assert engine.scheduler.stats.num_steps == 12


def test_a_plain_runner_is_given_one_step_after_the_other():
    """Nothing is computed in vain, and no step is in progress between two."""
    engine = SteppedEngine()
    answer = solo_answer(stop_token_ids=LIKELY_ENDS, temperature=1.0)
    engine.add(0, stop_token_ids=LIKELY_ENDS, temperature=1.0)
    engine.run()

    assert engine.answers[0] == answer
    assert engine.scheduler.stats.num_steps == len(answer)
    assert engine.scheduler.stats.num_computed_tokens == len(b"prompt") + len(answer) - 1


def test_what_was_computed_past_an_end_is_not_found():
    """A stop token is computed in vain, and its block is not in the prefix cache under any name."""
    prompt = next(
        prompt
        for prompt in (b"prompt %d" % i for i in range(100))
        if (len(prompt) + len(stopped_answer(prompt))) % BLOCK_SIZE == 0
    )
    engine = overlapping_engine()
    engine.add(0, prompt, stop_token_ids=LIKELY_ENDS, temperature=1.0)
    engine.run()

    answer = engine.answers[0]
    assert answer == stopped_answer(prompt)
    stats = engine.scheduler.stats
    assert stats.num_steps == len(answer) + 1
    assert stats.num_cached_blocks == (len(prompt) + len(answer)) // BLOCK_SIZE - 1


def stopped_answer(prompt):
    engine = solo_engine(prompt, stop_token_ids=LIKELY_ENDS, temperature=1.0)
    return engine.answers[0] if engine.finishes[0] == ["stop_token"] else b"x" * BLOCK_SIZE


def test_late_tokens_cost_a_step_and_change_nothing():
    """A row that has computed another token is dropped and begun again."""
    engine = overlapping_engine(late_every=4)
    engine.add(0, b"x" * 8, max_output_tokens=13, stop_token_ids=[])
    engine.run()

    assert engine.answers[0] == solo_answer(b"x" * 8, max_output_tokens=13, stop_token_ids=[])
    assert engine.scheduler.stats.num_steps == 13 + 3


@pytest.mark.parametrize(
    "options",
    [
        {"frequency_penalty": 1.0},
        {"repetition_penalty": 1.3},
        {"constraint": Constraint("a text")},
        {"num_prompt_top_logprobs": 1, "max_output_tokens": 1},
    ],
    ids=str,
)
def test_a_choice_that_looks_back_waits_for_the_tokens_before_it(options):
    """Its neighbours wait with it, and all go on together when it is done."""
    engine = overlapping_engine(compiler=FakeCompiler())
    engine.add(0, b"looks back", **options)
    engine.add(1, b"neighbour", max_output_tokens=40, stop_token_ids=[])
    while not engine.finishes[0]:
        assert engine.runner.num_awaited_rows == 0
        engine.step()
    engine.run()

    assert engine.answers[0] == solo_answer(b"looks back", compiler=FakeCompiler(), **options)
    expected = solo_answer(b"neighbour", max_output_tokens=40, stop_token_ids=[])
    assert engine.answers[1] == expected
    assert engine.runner.num_awaited_rows > 0


@pytest.mark.parametrize("late_every", [None, 3])
@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("num_blocks", [11, 16])
def test_preempted_candidates_that_stop_early_answer_as_if_alone(
    num_blocks, prefix_cache, late_every
):
    """In a tiny memory, with candidates of one prompt, nobody gets a foreign block."""
    options = {"max_output_tokens": 24, "temperature": 1.0, "stop_token_ids": [97]}
    prompts = [b"You help. %d" % (i // 4) for i in range(32)]
    engine = overlapping_engine(
        num_blocks=num_blocks,
        late_every=late_every,
        max_num_sequences=32,
        max_num_batched_tokens=96,
        prefix_cache=prefix_cache,
    )
    for i, prompt in enumerate(prompts):
        leader = i // 4 * 4
        shares = None if i == leader else leader
        engine.add(i, prompt, seed=i, shares_prompt_with=shares, **options)
    engine.run(max_num_steps=3000)

    assert engine.scheduler.stats.num_preemptions > 0
    assert engine.runner.num_awaited_rows > 0
    expected = [solo_answer(prompt, seed=i, **options) for i, prompt in enumerate(prompts)]
    assert [engine.answers[i] for i in range(32)] == expected


def test_a_sequence_that_is_given_up_in_a_step_is_told_at_once():
    """It ends with the step in progress, though a row of it is in the next one too."""
    engine = overlapping_engine()
    engine.add(0)
    engine.add(1)
    engine.step()
    engine.step(during_forward=lambda: engine.scheduler.abort(0))

    assert engine.finishes[0] == ["aborted"]
    assert engine.answers[0] == solo_answer()[:1]
    assert engine.run().answers[1] == solo_answer()


def test_rows_at_fault_fail_alone_while_the_next_step_is_in_progress():
    """Their neighbours, whose rows await tokens, get their solo answers."""
    runner = HeldRunner(simulated_runner())
    with running_loop(runner, SteppedEngine().scheduler) as (front, _, _):
        front.send(*(add_sequence(i, b"%d" % i, **LONG) for i in range(3)))
        front.read()
        front.send(
            add_sequence(3, [*b"raises", FAULT_RAISE]), add_sequence(4, [*b"no number", FAULT_NAN])
        )
        front.read_until_finished(*range(5))

    assert [front.finishes[i] for i in (3, 4)] == ["failed", "failed"]
    expected = [solo_answer(b"%d" % i, **LONG) for i in range(3)]
    assert [front.answer(i) for i in range(3)] == expected
    assert runner.num_awaited_rows > 0
