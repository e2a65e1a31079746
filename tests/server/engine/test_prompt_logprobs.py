"""Log probabilities of prompts and of outputs on their way to the front."""

import pytest

from headrace_server.engine.messages import SequenceOutput
from tests.server.engine.stepped_engine import SteppedEngine

PROMPT = b"how likely is all of this?"  # 26 tokens


def logprobs_of(prompt=PROMPT, num_top=3, **engine_options):
    engine = SteppedEngine(**engine_options)
    engine.add(0, prompt, num_prompt_top_logprobs=num_top)
    return engine.run().prompt_logprobs[0]


@pytest.mark.parametrize("max_num_batched_tokens", [1, 4, 7, 64])
def test_every_token_but_the_first_has_one_whatever_the_chunks(max_num_batched_tokens):
    """They come in order, before the first token, and do not depend on how a prompt is cut."""
    logprobs = logprobs_of(max_num_batched_tokens=max_num_batched_tokens)

    assert len(logprobs) == len(PROMPT) - 1
    assert logprobs == logprobs_of()
    assert {len(each.top_token_ids) for each in logprobs} == {3}


def test_they_are_told_with_each_chunk():
    """The front need not hold those of a long prompt in one message."""
    engine = SteppedEngine(max_num_batched_tokens=16)
    engine.add(0, PROMPT, num_prompt_top_logprobs=0)
    engine.step()

    assert len(engine.prompt_logprobs[0]) == 16
    assert engine.answers[0] == []


def test_a_prompt_of_one_token_has_none():
    """There is nothing before its token."""
    assert logprobs_of(b"x") == []


def test_they_are_computed_although_the_prompt_is_cached():
    """A sequence that wants them computes every token, and others find its blocks."""
    engine = SteppedEngine()
    for sequence_id, num_top in enumerate([None, 2, None]):
        engine.add(sequence_id, PROMPT, num_prompt_top_logprobs=num_top)
        engine.run()

    assert engine.num_cached_tokens == {0: 0, 1: 0, 2: 24}
    assert engine.prompt_logprobs[1] == logprobs_of(num_top=2)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("max_prefill_chunk", [1, 3])
def test_they_are_told_once_however_often_the_sequence_gives_way(prefix_cache, max_prefill_chunk):
    """What was told before a preemption is not told again, and nothing is left out."""
    engine = SteppedEngine(
        num_blocks=16, prefix_cache=prefix_cache, max_prefill_chunk=max_prefill_chunk
    )
    engine.add(0, b"a" * 7, max_output_tokens=50)
    engine.step()
    engine.add(1, PROMPT * 2, num_prompt_top_logprobs=3, max_output_tokens=12)
    while engine.scheduler.stats.num_preemptions == 0:
        engine.step()
    engine.run()

    assert engine.prompt_logprobs[1] == logprobs_of(PROMPT * 2)


def test_each_token_of_the_output_has_its_log_probability():
    """They pass through in step with the tokens, where they are wanted."""
    engine = SteppedEngine()
    engine.add(0, num_top_logprobs=2, max_output_tokens=6)
    engine.add(1, max_output_tokens=6)
    engine.run()

    assert engine.answers[0] == [each.top_token_ids[0] for each in engine.logprobs[0]]
    assert engine.logprobs[1] == []


def test_an_abort_drops_those_of_the_step():
    """Nothing but the finish is told of a sequence that was given up."""
    engine = SteppedEngine()
    engine.add(0, num_top_logprobs=0, num_prompt_top_logprobs=0)
    step = engine.scheduler.schedule()
    engine.scheduler.take_outputs()
    engine.scheduler.abort(0)
    engine.scheduler.commit(step, engine.runner.forward(step.rows))

    assert engine.scheduler.take_outputs() == [SequenceOutput(0, [], finish="aborted")]
