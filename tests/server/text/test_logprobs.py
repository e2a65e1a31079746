"""Log probabilities beside the tokens of an answer and before them, those of the prompt."""

import pytest

from headrace_server.backends.interface import BackendFinish, PromptTokens, Started, Tokens
from headrace_server.engine.logprobs import TokenLogprobs
from headrace_server.errors import ContextLengthExceededError
from headrace_server.text.delta import Finish, FinishReason, PromptInfo, Usage
from headrace_server.text.generation import Chunking, GenerationRequest, Stopping, TokenPrompt
from headrace_server.text.logprobs import TextLogprobs
from headrace_server.text.model import TextModel
from headrace_server.text.pipeline import TextPipeline
from tests.server.text.scripted_backend import ScriptedBackend
from tests.server.text.tokenizer_files import (
    byte_level_tokenizer,
    write_model,
)

TOKENIZER = byte_level_tokenizer()
END = TOKENIZER.token_to_id("<|im_end|>")
HELLO, WORLD, USER = (TOKENIZER.token_to_id(token) for token in ("hello", "Ġworld", "user"))
MAXIMUM = BackendFinish.MAX_OUTPUT_TOKENS
STOP = BackendFinish.STOP_TOKEN


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    facts = write_model(
        tmp_path_factory.mktemp("model"),
        TOKENIZER,
        generation_config={"eos_token_id": [END]},
        context_length=16,
    )
    return TextModel.load(facts)


@pytest.fixture
def read(model):
    """All deltas of an answer over a script, and the backend."""

    async def read(script, prompt=(HELLO, WORLD, END), **options):
        backend = ScriptedBackend(script)
        async with TextPipeline(backend) as pipeline:
            pipeline._model = model  # read once
            request = GenerationRequest("id", TokenPrompt(prompt), **options)
            async with pipeline.generate(request) as answer:
                deltas = [delta async for delta in answer]
        assert backend.num_open == 0
        return deltas, backend

    return read


def encode(text):
    return TOKENIZER.encode(text).ids


def engine_logprobs(token_ids, top=()):
    """What the engine tells: each token's log probability is minus its place, from 1."""
    tops = [-0.5] * len(top)
    return [TokenLogprobs(-1.0 - i, list(top), tops) for i in range(len(token_ids))]


def told(token_ids, finish=None, top=(), index=0):
    """An event with tokens and how likely they were."""
    return Tokens(token_ids, finish, engine_logprobs(token_ids, top), index)


def logprobs_of(deltas):
    return [each for delta in deltas for each in delta.candidates[0].logprobs]


async def test_each_token_has_its_log_probability_and_its_rivals(read):
    """The bytes are those of the tokens; rivals that are control tokens have their names."""
    deltas, backend = await read(
        [[Started(), told([HELLO, WORLD], MAXIMUM, top=[USER, END])]], num_top_logprobs=2
    )

    rivals = ([USER, END], [b"user", b"<|im_end|>"], [-0.5, -0.5])
    assert logprobs_of(deltas) == [
        TextLogprobs(HELLO, b"hello", -1.0, *rivals),
        TextLogprobs(WORLD, b" world", -2.0, *rivals),
    ]
    assert backend.requests[0].num_top_logprobs == 2


async def test_the_bytes_of_all_tokens_are_the_text(read):
    """Characters that are spread over tokens, and an end of text, which adds nothing."""
    token_ids = [*encode("é🐟 日本"), END]
    deltas, _ = await read([[Started(), told(token_ids, STOP)]], num_top_logprobs=0)

    text = "".join(delta.candidates[0].text for delta in deltas)
    assert b"".join(each.token_bytes for each in logprobs_of(deltas)).decode() == text == "é🐟 日本"
    assert [each.token_id for each in logprobs_of(deltas)] == token_ids
    assert logprobs_of(deltas)[-1].token_bytes == b""


async def test_a_shown_stop_has_its_bytes(read):
    """With include_stop_in_output the bytes are still those of the text."""
    stopping = Stopping(include_stop_in_output=True)
    script = [[Started(), told([HELLO, END], STOP)]]
    deltas, _ = await read(script, num_top_logprobs=0, stopping=stopping)

    assert [each.token_bytes for each in logprobs_of(deltas)] == [b"hello", b"<|im_end|>"]
    assert deltas[-1].candidates[0].text == "hello<|im_end|>"


async def test_log_probabilities_go_with_their_tokens_and_not_with_the_text(read):
    """Text that is held back comes later than the ids and what is told of them."""
    stopping = Stopping(9, stop_sequences=("hellouserx",))
    script = [[Started(), told([HELLO])], [told([USER])], [told([WORLD], MAXIMUM)]]
    for want_token_ids in (False, True):
        deltas, _ = await read(
            script, num_top_logprobs=0, stopping=stopping, want_token_ids=want_token_ids
        )
        pieces = [delta.candidates[0] for delta in deltas]
        assert [each.text for each in pieces] == ["", "", "hellouser world"]
        assert [[x.token_id for x in each.logprobs] for each in pieces] == [
            [HELLO],
            [USER],
            [WORLD],
        ]


async def test_tokens_behind_a_stop_are_not_told(read):
    """There is one log probability for each token that counts."""
    script = [[Started(), told([HELLO, WORLD, USER])]]
    deltas, _ = await read(script, num_top_logprobs=0, stopping=Stopping(stop_sequences=("lo w",)))

    assert [each.token_id for each in logprobs_of(deltas)] == [HELLO, WORLD]
    assert deltas[-1].usage == Usage(3, 2)


async def test_they_are_told_where_neither_text_nor_ids_are_wanted(read):
    """Log probabilities alone are content enough for a delta."""
    script = [[Started(), told([HELLO])], [told([USER], MAXIMUM)]]
    deltas, _ = await read(script, num_top_logprobs=0, want_text=False)

    assert [[x.token_id for x in delta.candidates[0].logprobs] for delta in deltas] == [
        [HELLO],
        [USER],
    ]


async def test_candidates_are_told_each_by_itself(read):
    """The log probabilities of a candidate stand in its own delta."""
    script = [[Started(), told([HELLO], MAXIMUM), told([USER], MAXIMUM, index=1)]]
    [delta], _ = await read(script, num_top_logprobs=0, num_candidates=2)

    assert [[x.token_id for x in each.logprobs] for each in delta.candidates] == [[HELLO], [USER]]


def told_prompt(token_ids, top=()):
    return PromptTokens(engine_logprobs(token_ids, top))


@pytest.mark.parametrize("chunking", [Chunking(), Chunking(whole=True), Chunking(9)], ids=str)
async def test_those_of_the_prompt_come_before_the_answer(read, chunking):
    """One for each token, in order, the first without a number; a delta has them or candidates."""
    script = [
        [Started()],
        [told_prompt([WORLD], top=[USER])],
        [told_prompt([END]), Tokens([HELLO], MAXIMUM)],
    ]
    deltas, backend = await read(script, num_prompt_top_logprobs=1, chunking=chunking)

    assert [x for delta in deltas for x in delta.prompt_logprobs] == [
        TextLogprobs(HELLO, b"hello", None),
        TextLogprobs(WORLD, b" world", -1.0, [USER], [b"user"], [-0.5]),
        TextLogprobs(END, b"<|im_end|>", -1.0, [], [], []),
    ]
    assert [len(delta.candidates) for delta in deltas] == [0, 0, 0, 1]
    assert [delta.prompt for delta in deltas] == [PromptInfo(3, 0), None, None, None]
    assert backend.requests[0].num_prompt_top_logprobs == 1


async def test_an_answer_waits_for_all_of_the_prompt(read):
    """A candidate that is ahead of the one that tells the prompt does not come before it."""
    script = [
        [Started()],
        [Tokens([USER], None, (), 1)],
        [told_prompt([WORLD, END])],
        [Tokens([HELLO], MAXIMUM), Tokens([USER], MAXIMUM, (), 1)],
    ]
    deltas, _ = await read(script, num_prompt_top_logprobs=0, num_candidates=2)

    assert [len(delta.prompt_logprobs) for delta in deltas] == [1, 2, 0, 0]
    assert [[c.text for c in delta.candidates] for delta in deltas[2:]] == [
        ["user"],
        ["hello", "user"],
    ]


async def test_a_prompt_can_be_told_without_an_answer(read):
    """With max_output_tokens 0 the token that the engine makes all the same is dropped."""
    script = [[Started()], [told_prompt([WORLD, END])], [Tokens([HELLO], MAXIMUM)]]
    deltas, backend = await read(
        script, num_prompt_top_logprobs=0, num_candidates=2, stopping=Stopping(0)
    )

    assert [x.token_id for delta in deltas for x in delta.prompt_logprobs] == [HELLO, WORLD, END]
    finish = Finish(FinishReason.MAX_OUTPUT_TOKENS)
    assert [(c.text, c.finish) for c in deltas[-1].candidates] == [("", finish)] * 2
    assert deltas[-1].usage == Usage(3, 0)
    assert deltas[-1].timing.first_token_seconds is None
    [asked] = backend.requests
    assert (asked.max_output_tokens, asked.num_candidates) == (1, 1)


async def test_a_prompt_that_fills_the_context_cannot_be_told(read):
    """There is no room for the token that the engine makes."""
    with pytest.raises(ContextLengthExceededError):
        await read([], prompt=(1,) * 16, num_prompt_top_logprobs=0, stopping=Stopping(0))


async def test_a_prompt_of_one_token_is_told_at_once(read):
    """Nothing comes of the engine for it."""
    script = [[Started()], [Tokens([HELLO], MAXIMUM)]]
    deltas, _ = await read(script, prompt=(USER,), num_prompt_top_logprobs=3)

    assert deltas[0].prompt_logprobs == [TextLogprobs(USER, b"user", None)]
    assert deltas[-1].candidates[0].text == "hello"


async def test_a_whole_answer_is_not_held_beyond_what_a_response_takes(read):
    """It goes out in pieces as it grows, the sooner the more is told of each token."""
    num_steps, top = 8, [HELLO] * 20
    step = [HELLO] * 1000
    script = [Started(), *[told(step, None, top)] * num_steps, told([USER], MAXIMUM, top)]
    deltas, _ = await read(script, chunking=Chunking(whole=True), num_top_logprobs=20)
    assert [len(delta.candidates[0].logprobs) for delta in deltas] == [2000] * 4 + [1]
    plain = [Started(), *[Tokens(step, None)] * num_steps, Tokens([USER], MAXIMUM)]
    [delta], _ = await read(plain, chunking=Chunking(whole=True))
    assert len(delta.candidates[0].text) == num_steps * 1000 * len("hello") + len("user")
