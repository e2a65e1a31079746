from headrace_server.engine.block_names import BlockNames
from headrace_server.engine.sequence import Sequence
from tests.server.engine.stepped_engine import add_sequence


def new_sequence(**options):
    return Sequence(add_sequence(0, b"abc", **options), 0, BlockNames("", 4))


def test_what_is_asked_of_the_sampling_reaches_the_row():
    """Bias, penalties and log probabilities are those of the request."""
    sequence = new_sequence(
        logit_bias={5: -1.5},
        presence_penalty=0.5,
        frequency_penalty=0.25,
        repetition_penalty=1.25,
        num_top_logprobs=4,
    )
    sampling = sequence.row(3).sampling

    assert sampling.logit_bias == {5: -1.5}
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, 0.25)
    assert (sampling.repetition_penalty, sampling.num_top_logprobs) == (1.25, 4)


def test_a_row_carries_the_tokens_that_its_penalties_look_at_and_no_copies():
    """Without a penalty there are none; the lists are those of the sequence."""
    sequences = {
        name: new_sequence(**{name: 1.5})
        for name in ("repetition_penalty", "presence_penalty", "frequency_penalty", "seed")
    }
    looks_at = {}
    for name, sequence in sequences.items():
        sampling = sequence.row(3).sampling
        looks_at[name] = (
            sampling.prompt_token_ids is sequence.request.prompt_token_ids,
            sampling.output_token_ids is sequence.output_token_ids,
        )

    assert looks_at == {
        "repetition_penalty": (True, True),
        "presence_penalty": (False, True),
        "frequency_penalty": (False, True),
        "seed": (False, False),
    }
    assert sequences["seed"].row(3).sampling.prompt_token_ids == ()


def test_a_row_asks_for_the_tokens_behind_its_own():
    """The last token of the prompt has none behind it, and the output is not asked about."""
    sequence = new_sequence(num_prompt_top_logprobs=2)
    first = sequence.row(2).prompt_logprobs
    whole = sequence.row(3).prompt_logprobs

    assert (first.target_token_ids, first.num_top) == ([98, 99], 2)
    assert whole.target_token_ids == [98, 99]
    assert new_sequence().row(3).prompt_logprobs is None
    sequence.num_told_prompt_logprobs = 2
    assert sequence.row(3).prompt_logprobs is None
