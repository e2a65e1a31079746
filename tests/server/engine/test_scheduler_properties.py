from hypothesis import given, settings
from hypothesis import strategies as st

from tests.server.engine.stepped_engine import SteppedEngine, solo_answer

PROMPTS = st.binary(min_size=1, max_size=24)
OPTIONS = st.fixed_dictionaries(
    {
        "max_output_tokens": st.integers(1, 16),
        "min_output_tokens": st.integers(0, 4),
        "temperature": st.sampled_from([0.0, 1.0]),
        "seed": st.integers(0, 3),
        "stop_token_ids": st.sampled_from([[258], [97, 98, 32], []]),
    }
)
LIMITS = st.fixed_dictionaries(
    {
        "num_blocks": st.integers(10, 20),
        "max_num_sequences": st.integers(1, 6),
        "max_num_batched_tokens": st.integers(1, 24),
        "max_prefill_chunk": st.integers(1, 12),
    }
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), PROMPTS, OPTIONS),
        st.tuples(st.just("abort"), st.integers(0, 12)),
        st.tuples(st.just("abort during step"), st.integers(0, 12)),
        st.tuples(st.just("step"), st.integers(1, 8)),
    ),
    max_size=40,
)


def act(engine, actions):
    """Play the actions to the end and return the requests by their ids."""
    requests = {}
    for action, *arguments in actions:
        match action, arguments:
            case "add", [prompt, options]:
                requests[len(requests)] = (prompt, options)
                engine.add(len(requests) - 1, prompt, **options)
            case "abort", [sequence_id]:
                engine.scheduler.abort(sequence_id)
            case "abort during step", [sequence_id]:
                engine.step(during_forward=lambda abort=sequence_id: engine.scheduler.abort(abort))
            case "step", [num_steps]:
                for _ in range(num_steps):
                    engine.step()
    engine.run()
    return requests


@settings(max_examples=150, deadline=None)
@given(limits=LIMITS, actions=ACTIONS)
def test_whatever_happens_each_sequence_ends_once_with_its_solo_answer(limits, actions):
    """Under any adds, aborts and memory: one terminal state, no lost block, no foreign token."""
    engine = SteppedEngine(**limits)
    requests = act(engine, actions)

    assert set(engine.finishes) == set(requests)
    assert engine.scheduler.stats.num_free_blocks == limits["num_blocks"]
    for sequence_id, (prompt, options) in requests.items():
        (finish,) = engine.finishes[sequence_id]
        answer, alone = engine.answers[sequence_id], solo_answer(prompt, **options)
        assert answer == (alone[: len(answer)] if finish == "aborted" else alone)


@settings(max_examples=30, deadline=None)
@given(limits=LIMITS, actions=ACTIONS)
def test_the_same_messages_give_the_same_steps(limits, actions):
    """Nothing but the messages decides what a step holds."""
    engines = [SteppedEngine(**limits), SteppedEngine(**limits)]
    for engine in engines:
        act(engine, actions)

    assert engines[0].scheduler.stats == engines[1].scheduler.stats
    assert engines[0].answers == engines[1].answers
