import pytest

from headrace_server.engine.messages import SequenceOutput
from headrace_server.engine.model_runner import RowOutput
from headrace_server.engine.simulated_vocabulary import END_OF_TURN, FAULT_NAN, VOCABULARY_SIZE
from tests.server.engine.stepped_engine import SteppedEngine, solo_answer


def test_an_answer_has_its_length_and_one_terminal_state():
    """A sequence starts once, makes its tokens and finishes once; its blocks come back."""
    engine = SteppedEngine()
    engine.add(7, max_output_tokens=5)
    engine.run()

    assert len(engine.answers[7]) == 5
    assert engine.starts[7] == 1
    assert engine.finishes[7] == ["max_output_tokens"]
    stats = engine.scheduler.stats
    assert (stats.num_free_blocks, stats.num_total_blocks) == (64, 64)
    assert stats.num_computed_tokens == len(b"prompt") + 4


def test_a_stop_token_is_delivered_and_ends_the_sequence():
    """The id that ends a sequence is its last token."""
    answer = solo_answer(max_output_tokens=20)
    stop = answer[9]
    engine = SteppedEngine()
    engine.add(0, stop_token_ids=[stop])
    engine.run()

    assert engine.answers[0] == answer[: answer.index(stop) + 1]
    assert engine.finishes[0] == ["stop_token"]


def test_no_stop_token_is_chosen_before_the_minimum():
    """min_output_tokens keeps the stop tokens away exactly as long as it says."""
    stop = solo_answer()[0]
    engine = SteppedEngine(num_blocks=200)
    engine.add(0, stop_token_ids=[stop], min_output_tokens=8, max_output_tokens=400)
    engine.run()

    assert stop not in engine.answers[0][:8]
    assert engine.answers[0][-1] == stop


def test_stop_tokens_are_banned_for_the_minimum_exactly():
    """With a minimum of 2 the third token is the first that may end the sequence."""
    engine = SteppedEngine()
    engine.add(0, min_output_tokens=2, stop_token_ids=[9])
    banned = []
    for _ in range(4):
        step = engine.scheduler.schedule()
        banned.append(list(step.rows[0].sampling.banned_token_ids))
        engine.scheduler.commit(step, engine.runner.forward(step.rows))

    assert banned == [[9], [9], [], []]


def test_a_prompt_is_computed_in_chunks_of_the_budget():
    """A prompt alone takes the whole budget of each step, and its answer is the same."""
    engine = SteppedEngine(max_num_batched_tokens=8, max_prefill_chunk=4)
    engine.add(0, b"x" * 20)

    assert [engine.step() for _ in range(4)] == [{0: 8}, {0: 8}, {0: 4}, {0: 1}]
    assert engine.run().answers[0] == solo_answer(b"x" * 20)


def test_a_long_prompt_does_not_hold_up_answers():
    """While others decode, all prompts together get max_prefill_chunk tokens, behind them."""
    engine = SteppedEngine(max_num_batched_tokens=16, max_prefill_chunk=8)
    engine.add(0, b"ab")
    engine.step()
    engine.add(1, b"x" * 40)

    assert engine.step() == {0: 1, 1: 8}
    engine.add(2, b"c" * 4)
    assert engine.step() == {0: 1, 1: 4, 2: 4}
    assert engine.step() == {0: 1, 2: 1, 1: 8}


def test_the_batch_is_never_larger_than_its_limits():
    """No more sequences run than max_num_sequences or than the token budget has room for."""
    few = SteppedEngine(max_num_sequences=3)
    small = SteppedEngine(max_num_batched_tokens=2)
    for sequence_id in range(5):
        few.add(sequence_id, b"a")
        small.add(sequence_id, b"a")

    assert list(few.step()) == [0, 1, 2]
    assert list(small.step()) == [0, 1]


def test_the_queue_is_served_in_order():
    """A short request does not overtake a long one that waits for memory."""
    engine = SteppedEngine(num_blocks=8)
    engine.add(0, b"x" * 16, max_output_tokens=4)
    engine.add(1, b"x" * 28, max_output_tokens=2)
    engine.add(2, b"x", max_output_tokens=2)

    assert list(engine.step()) == [0]
    assert engine.run().finishes == {key: ["max_output_tokens"] for key in range(3)}


def test_the_newest_is_preempted_and_its_answer_stays_the_same():
    """When blocks run out, the oldest runs on and the newest is computed again later."""
    prompts = [b"alpha", b"beta!", b"gamma"]
    engine = SteppedEngine(num_blocks=11)
    for sequence_id, prompt in enumerate(prompts):
        engine.add(sequence_id, prompt, max_output_tokens=24)
    engine.run()

    assert engine.scheduler.stats.num_preemptions > 0
    assert [engine.answers[i] for i in range(3)] == [
        solo_answer(prompt, max_output_tokens=24) for prompt in prompts
    ]
    assert engine.starts == dict.fromkeys(range(3), 1)
    assert next(iter(engine.finishes)) == 0


def test_a_preempted_sequence_goes_before_the_queue():
    """What has begun is finished before what has not."""
    engine = SteppedEngine(num_blocks=8, max_num_sequences=2)
    engine.add(0, b"x" * 10, max_output_tokens=20)
    engine.add(1, b"y" * 10, max_output_tokens=20)
    engine.add(2, b"z")
    while engine.scheduler.stats.num_preemptions == 0:
        engine.step()
    engine.scheduler.abort(0)

    assert list(engine.step()) == [1, 2]


def test_admission_leaves_a_block_for_each_running_sequence():
    """A sequence that would be preempted at once is not admitted."""
    engine = SteppedEngine(num_blocks=9)
    engine.add(0, b"x" * 15)
    engine.step()
    engine.add(1, b"y" * 20, max_output_tokens=4)

    assert list(engine.step()) == [0]
    engine.scheduler.abort(0)
    assert list(engine.step()) == [1]


def test_a_sequence_may_fill_the_whole_memory():
    """What fits the KV cache alone is served, whatever else is there."""
    engine = SteppedEngine(num_blocks=8)
    engine.add(0, b"x" * 20, max_output_tokens=12)
    engine.add(1, b"y" * 20, max_output_tokens=12)

    assert engine.run().finishes == {key: ["max_output_tokens"] for key in range(2)}


@pytest.mark.parametrize(
    "request_options",
    [
        {"prompt": b"x" * 30, "max_output_tokens": 3},
        {"prompt": b""},
        {"prompt": [VOCABULARY_SIZE]},
        {"prompt": [-1]},
        {"max_output_tokens": 0},
    ],
)
def test_what_can_never_run_fails_at_once(request_options):
    """A sequence that is too large or malformed ends as failed and touches nobody."""
    engine = SteppedEngine(num_blocks=8)
    engine.add(0, **request_options)
    engine.add(1, max_output_tokens=4)
    engine.run()

    assert engine.finishes == {0: ["failed"], 1: ["max_output_tokens"]}


def test_a_fault_of_one_row_ends_that_sequence_alone():
    """Neighbours of a row without numbers go on as if it had not been there."""
    engine = SteppedEngine()
    engine.add(0, b"first")
    engine.add(1, [*b"bad", FAULT_NAN])
    engine.add(2, b"third")
    engine.run()

    assert engine.finishes[1] == ["failed"]
    assert engine.answers[1] == []
    assert engine.answers[0] == solo_answer(b"first")
    assert engine.answers[2] == solo_answer(b"third")


def test_a_token_outside_the_vocabulary_fails_its_sequence():
    """A model that returns nonsense does not poison the next step."""
    engine = SteppedEngine()
    engine.add(0)
    step = engine.scheduler.schedule()
    engine.scheduler.commit(step, [RowOutput(VOCABULARY_SIZE)])

    assert engine.scheduler.take_outputs() == [
        SequenceOutput(0, [], started=True),
        SequenceOutput(0, [], finish="failed"),
    ]


def test_a_queued_sequence_is_aborted_without_a_step():
    """An abort before the first step computes nothing."""
    engine = SteppedEngine()
    engine.add(0)
    engine.scheduler.abort(0)

    assert engine.step() == {}
    assert engine.finishes == {0: ["aborted"]}
    assert engine.starts[0] == 0


@pytest.mark.parametrize("num_steps", [1, 2, 3, 6], ids=["prefill", "prefill2", "first", "decode"])
def test_an_abort_between_steps_wastes_nothing(num_steps):
    """A running sequence is aborted before the next step, with all its blocks."""
    engine = SteppedEngine(max_num_batched_tokens=8)
    engine.add(0, b"x" * 20)
    for _ in range(num_steps):
        engine.step()
    num_computed_tokens = engine.scheduler.stats.num_computed_tokens
    engine.scheduler.abort(0)
    engine.step()

    assert engine.finishes[0] == ["aborted"]
    assert engine.scheduler.stats.num_computed_tokens == num_computed_tokens
    assert engine.scheduler.stats.num_free_blocks == 64


@pytest.mark.parametrize(
    "num_steps", [0, 1, 2, 4, 5], ids=["prefill", "mid", "first", "decode", "last"]
)
def test_an_abort_during_a_step_wastes_that_step_only(num_steps):
    """The step in flight is dropped, its tokens are not delivered, and there is no other."""
    engine = SteppedEngine(max_num_batched_tokens=8)
    engine.add(0, b"x" * 20, max_output_tokens=4)
    for _ in range(num_steps):
        engine.step()
    delivered = list(engine.answers[0])
    rows = engine.step(during_forward=lambda: engine.scheduler.abort(0))

    assert list(rows) == [0]
    assert engine.answers[0] == delivered
    assert engine.finishes[0] == ["aborted"]
    assert not engine.scheduler.has_work
    assert engine.scheduler.stats.num_free_blocks == 64


def test_a_preempted_sequence_can_be_aborted():
    """A sequence that went back to the queue is acknowledged like any other."""
    engine = SteppedEngine(num_blocks=8)
    engine.add(0, b"x" * 10, max_output_tokens=20)
    engine.add(1, b"y" * 10, max_output_tokens=20)
    while engine.scheduler.stats.num_preemptions == 0:
        engine.step()
    engine.scheduler.abort(1)
    engine.run()

    assert engine.finishes == {0: ["max_output_tokens"], 1: ["aborted"]}


def test_messages_about_strangers_are_ignored_and_counted():
    """Aborts of unknown, finished or aborted sequences and repeated adds change nothing."""
    engine = SteppedEngine()
    engine.scheduler.abort(99)
    engine.add(0)
    engine.add(0, b"another")
    engine.scheduler.abort(0)
    engine.scheduler.abort(0)
    engine.run()
    engine.scheduler.abort(0)

    assert engine.finishes == {0: ["aborted"]}
    assert engine.scheduler.num_ignored_messages == 3


def test_end_of_text_comes_by_itself():
    """Answers of the simulated model end by themselves, most of them late."""
    answers = [solo_answer(b"%d" % i, max_output_tokens=900) for i in range(12)]

    assert END_OF_TURN in [answer[-1] for answer in answers]
    assert sorted(map(len, answers))[6] > 100
