import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_server.engine.messages import Constraint
from headrace_server.engine.simulated_vocabulary import FAULT_NAN
from tests.server.engine.fake_constraints import FakeCompiler
from tests.server.engine.held_runner import HeldRunner
from tests.server.engine.stepped_engine import SteppedEngine, simulated_runner, solo_engine

RUNNERS = {
    "plain": simulated_runner,
    "overlapping": lambda num_blocks: HeldRunner(simulated_runner(num_blocks)),
    "late": lambda num_blocks: HeldRunner(simulated_runner(num_blocks), late_every=3),
}

# Many prompts begin alike; some give no numbers at their end.
PROMPTS = st.builds(
    lambda beginning, rest, fault: [*beginning, *rest, *fault],
    st.sampled_from([b"", b"12345678", b"1234abcdefgh"]),
    st.binary(min_size=1, max_size=12),
    st.sampled_from([[], [], [], [FAULT_NAN]]),
)
OPTIONS = st.fixed_dictionaries(
    {
        "max_output_tokens": st.integers(1, 16),
        "min_output_tokens": st.integers(0, 4),
        "temperature": st.sampled_from([0.0, 1.0]),
        "seed": st.integers(0, 3),
        "stop_token_ids": st.sampled_from([[258], [97, 98, 32], []]),
        "caller": st.sampled_from("ab"),
        "cache_identity": st.sampled_from(["", "", "x"]),
        "priority": st.sampled_from([0, 0, 1]),
        "num_prompt_top_logprobs": st.sampled_from([None, None, 1]),
        "constraint": st.sampled_from([None, None, None, Constraint("a text"), Constraint("")]),
        "frequency_penalty": st.sampled_from([0.0, 0.0, 1.5]),
    }
)
LIMITS = st.fixed_dictionaries(
    {
        "num_blocks": st.integers(11, 20),
        "max_num_sequences": st.integers(1, 6),
        "max_num_batched_tokens": st.integers(1, 24),
        "max_prefill_chunk": st.integers(1, 12),
        "prefix_cache": st.booleans(),
    }
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), PROMPTS, OPTIONS, st.integers(1, 3)),
        st.tuples(st.just("abort"), st.integers(0, 12)),
        st.tuples(st.just("abort during step"), st.integers(0, 12)),
        st.tuples(st.just("compile"), st.booleans()),
        st.tuples(st.just("step"), st.integers(1, 8)),
    ),
    max_size=40,
)


def act(engine, compiler, actions):
    """Play the actions to the end and return the requests by their ids."""
    requests = {}
    for action, *arguments in actions:
        match action, arguments:
            case "add", [prompt, options, num_candidates]:
                leader = None
                for _ in range(num_candidates):
                    engine.add(len(requests), prompt, **options, shares_prompt_with=leader)
                    leader = len(requests) if leader is None else leader
                    requests[len(requests)] = (prompt, options)
            case "abort", [sequence_id]:
                engine.scheduler.abort(sequence_id)
            case "abort during step", [sequence_id]:
                engine.step(during_forward=lambda abort=sequence_id: engine.scheduler.abort(abort))
            case "compile", [is_ready]:
                compiler.is_ready = is_ready
            case "step", [num_steps]:
                for _ in range(num_steps):
                    engine.step()
    compiler.is_ready = True
    engine.run()
    return requests


@pytest.mark.parametrize("runner", RUNNERS)
@settings(max_examples=200, deadline=None)
@given(limits=LIMITS, actions=ACTIONS)
def test_whatever_happens_each_sequence_ends_once_with_its_solo_answer(runner, limits, actions):
    """Under any adds, aborts and memory: one terminal state, no lost block, no foreign token."""
    compiler = FakeCompiler()
    engine = SteppedEngine(
        **limits, compiler=compiler, runner=RUNNERS[runner](limits["num_blocks"])
    )
    requests = act(engine, compiler, actions)

    assert set(engine.finishes) == set(requests)
    stats = engine.scheduler.stats
    assert stats.num_free_blocks == limits["num_blocks"]
    assert limits["prefix_cache"] or stats.num_cached_blocks == 0
    for sequence_id, (prompt, options) in requests.items():
        (finish,) = engine.finishes[sequence_id]
        alone = solo_engine(prompt, **options, compiler=FakeCompiler())
        if finish == "aborted":
            answer = engine.answers[sequence_id]
            assert answer == alone.answers[0][: len(answer)]
        else:
            assert [finish] == alone.finishes[0]
            assert engine.answers[sequence_id] == alone.answers[0]
        if finish not in ("aborted", "failed"):
            assert engine.prompt_logprobs[sequence_id] == alone.prompt_logprobs[0]


@settings(max_examples=30, deadline=None)
@given(limits=LIMITS, actions=ACTIONS)
def test_the_same_messages_give_the_same_steps(limits, actions):
    """Nothing but the messages decides what a step holds."""
    engines = []
    for _ in range(2):
        compiler = FakeCompiler()
        engines.append(SteppedEngine(**limits, compiler=compiler))
        act(engines[-1], compiler, actions)

    assert engines[0].scheduler.stats == engines[1].scheduler.stats
    assert engines[0].answers == engines[1].answers
    assert engines[0].num_cached_tokens == engines[1].num_cached_tokens
