"""What the engine is told of a request."""

from dataclasses import replace

from headrace_server.backends.interface import BackendRequest, SamplingParams
from headrace_server.backends.native.sequences import to_sequences
from headrace_server.engine.messages import AddSequence, Constraint

SAMPLING = SamplingParams(
    temperature=0.5,
    top_k=40,
    top_p=0.25,
    min_p=0.125,
    seed=11,
    logit_bias={5: -100.0},
    presence_penalty=1.0,
    frequency_penalty=-1.0,
    repetition_penalty=1.5,
)
REQUEST = BackendRequest(
    request_id="a",
    prompt_token_ids=(1, 2, 3),
    sampling=SAMPLING,
    max_output_tokens=9,
    min_output_tokens=2,
    stop_token_ids=frozenset([4]),
    num_top_logprobs=3,
    num_prompt_top_logprobs=0,
    constraint=Constraint("a grammar"),
    priority=-7,
    caller="ipv4:127.0.0.1:5",
    cache_identity="salt",
)


def test_every_wish_reaches_the_engine():
    """Nothing of a request is lost on the way."""
    assert list(to_sequences(REQUEST, range(20, 21))) == [
        AddSequence(
            sequence_id=20,
            prompt_token_ids=[1, 2, 3],
            temperature=0.5,
            top_k=40,
            top_p=0.25,
            min_p=0.125,
            seed=11,
            max_output_tokens=9,
            min_output_tokens=2,
            stop_token_ids=[4],
            logit_bias={5: -100.0},
            presence_penalty=1.0,
            frequency_penalty=-1.0,
            repetition_penalty=1.5,
            num_top_logprobs=3,
            num_prompt_top_logprobs=0,
            constraint=Constraint("a grammar"),
            priority=-7,
            caller="ipv4:127.0.0.1:5",
            cache_identity="salt",
        )
    ]


def test_candidates_differ_in_their_seeds_and_share_the_prompt():
    """The first one tells the log probabilities of the prompt; the others take over its blocks."""
    sequences = list(to_sequences(replace(REQUEST, num_candidates=3), range(20, 23)))
    assert [each.sequence_id for each in sequences] == [20, 21, 22]
    assert [each.seed for each in sequences] == [11, 12, 13]
    assert [each.shares_prompt_with for each in sequences] == [None, 20, 20]
    assert [each.num_prompt_top_logprobs for each in sequences] == [0, None, None]
