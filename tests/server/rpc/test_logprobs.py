"""Log probabilities over a real channel."""

import math

import grpc
import pytest
import pytest_asyncio

from headrace.v1 import inference_service_pb2 as pb
from tests.server.running_server import collect, failure, running_server

SHORT = {"max_output_tokens": 30, "ignore_end_of_text": True}
GREEDY = {"temperature": 0}
MEBIBYTE = 1024 * 1024

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with running_server() as under:
        yield under


@pytest_asyncio.fixture(loop_scope="module")
async def under(shared):
    yield shared
    await shared.all_returned()


def told_of(responses):
    return [each for r in responses for delta in r.deltas for each in delta.logprobs]


def prompt_of(responses):
    return [each for r in responses for each in r.prompt_logprobs]


def text_of(responses):
    return "".join(delta.text for r in responses for delta in r.deltas)


@pytest.mark.parametrize("chunking", [{}, {"min_tokens": 7}, {"whole": True}], ids=str)
@pytest.mark.parametrize("count", [0, 1, 20])
async def test_there_is_one_for_each_token_of_the_delta(under, count, chunking):
    """With as many rivals as asked for, the most likely first, and no number above 0."""
    output = {"token_ids": True, "top_logprobs": count, "chunking": chunking}
    responses = await collect(under.generate(stopping=SHORT, sampling=GREEDY, output=output))

    for response in responses:
        for delta in response.deltas:
            assert [each.token_id for each in delta.logprobs] == list(delta.token_ids)
    told = told_of(responses)
    assert len(told) == responses[-1].usage.output_token_count == 30
    for each in told:
        numbers = [top.logprob for top in each.top]
        assert len(numbers) == count
        assert numbers == sorted(numbers, reverse=True)
        assert all(number <= 0 for number in (each.logprob, *numbers))
        if count:
            assert math.isclose(each.logprob, numbers[0])
            assert each.top[0].token_id == each.token_id


async def test_the_bytes_of_the_tokens_are_the_text(under):
    """Also where a character is spread over several tokens, as in the simulated model."""
    stopping = {"max_output_tokens": 300, "ignore_end_of_text": True}
    responses = await collect(under.generate(stopping=stopping, output={"top_logprobs": 0}))

    joined = b"".join(each.token_bytes for each in told_of(responses))
    assert joined.decode("utf-8", "replace") == text_of(responses)
    assert any(len(bytes(each.token_bytes)) == 1 for each in told_of(responses))


async def test_nobody_gets_what_was_not_asked_for(under):
    """Without the fields there are none."""
    responses = await collect(under.generate(stopping=SHORT))
    assert (told_of(responses), prompt_of(responses)) == ([], [])


async def test_those_of_the_prompt_come_first_and_have_its_bytes(under):
    """One for each token, in order, in responses without deltas, the first without a number."""
    prompt = "é and 🌊"
    responses = await collect(
        under.generate(text=prompt, stopping=SHORT, output={"prompt_logprobs": 2})
    )

    told = prompt_of(responses)
    assert b"".join(each.token_bytes for each in told).decode() == prompt
    assert len(told) == responses[0].prompt.token_count
    assert [each.HasField("logprob") for each in told] == [False] + [True] * (len(told) - 1)
    assert [len(each.top) for each in told] == [0] + [2] * (len(told) - 1)
    kinds = [(bool(r.prompt_logprobs), bool(r.deltas)) for r in responses]
    assert kinds == sorted(kinds, reverse=True)
    assert set(kinds) == {(True, False), (False, True)}
    assert [r.HasField("prompt") for r in responses] == [True] + [False] * (len(responses) - 1)


async def test_an_answer_is_as_likely_in_the_prompt_as_it_was_when_it_was_made(under):
    """The numbers belong to the token beside which they stand, in both places."""
    answer = await collect(
        under.generate(
            token_ids={"ids": [65, 66, 67]},
            stopping=SHORT,
            sampling=GREEDY,
            output={"token_ids": True, "top_logprobs": 3},
        )
    )
    ids = [65, 66, 67, *(each.token_id for each in told_of(answer))]
    again = await collect(
        under.generate(
            token_ids={"ids": ids},
            stopping={"max_output_tokens": 0},
            output={"prompt_logprobs": 3},
        )
    )
    made, read = told_of(answer), prompt_of(again)[3:]
    assert [each.token_id for each in read] == [each.token_id for each in made]
    assert [list(each.top) for each in read] == [list(each.top) for each in made]
    assert [each.logprob for each in read] == [each.logprob for each in made]


async def test_a_text_can_be_judged_without_an_answer(under):
    """max_output_tokens 0 with prompt_logprobs gives them and an empty answer."""
    responses = await collect(
        under.generate(
            text="Once upon", stopping={"max_output_tokens": 0}, output={"prompt_logprobs": 0}
        )
    )
    assert len(prompt_of(responses)) == responses[0].prompt.token_count
    assert text_of(responses) == ""
    assert responses[-1].usage.output_token_count == 0


async def test_a_long_prompt_with_many_rivals_stays_below_one_mebibyte(under):
    """8000 tokens with 20 rivals each arrive whole, in messages that every client takes."""
    responses = await collect(
        under.generate(
            token_ids={"ids": [i % 250 for i in range(8000)]},
            stopping=SHORT,
            output={"prompt_logprobs": 20, "top_logprobs": 20, "chunking": {"whole": True}},
        )
    )
    assert max(response.ByteSize() for response in responses) < MEBIBYTE
    assert [each.token_id for each in prompt_of(responses)] == [i % 250 for i in range(8000)]
    assert sum(len(each.top) for each in prompt_of(responses)) == 7999 * 20
    assert len(told_of(responses)) == 30


async def test_each_candidate_has_its_own(under):
    """Those of the prompt are told once."""
    responses = await collect(
        under.generate(
            stopping=SHORT,
            sampling={"candidate_count": 3, "temperature": 1},
            output={"token_ids": True, "top_logprobs": 1, "prompt_logprobs": 1},
        )
    )
    for response in responses:
        for delta in response.deltas:
            assert [each.token_id for each in delta.logprobs] == list(delta.token_ids)
    assert len(told_of(responses)) == 90
    assert len(prompt_of(responses)) == responses[0].prompt.token_count


async def test_a_prompt_that_fills_the_context_cannot_be_judged():
    """The refusal says so, and a prompt one token shorter can."""
    async with running_server("--max-model-len", 64) as under:
        wishes = {"stopping": {"max_output_tokens": 0}, "output": {"prompt_logprobs": 0}}
        error = await failure(under.generate(token_ids={"ids": [65] * 64}, **wishes))
        assert (error.code, error.reason) == (
            grpc.StatusCode.INVALID_ARGUMENT,
            "CONTEXT_LENGTH_EXCEEDED",
        )
        responses = await collect(under.generate(token_ids={"ids": [65] * 63}, **wishes))
        assert len(prompt_of(responses)) == 63
        assert isinstance(responses[0], pb.GenerateResponse)
        await under.all_returned()
