"""The client against the real server with the simulated engine."""

import json
import re
import subprocess
import sys

import pytest

import headrace
from headrace import AsyncClient, Client, FinishReason

BOUND_SECONDS = 60.0
ENDLESS = {"max_output_tokens": 8000, "ignore_end_of_text": True}


@pytest.fixture(scope="module")
def target():
    """The address of a server that is ready."""
    command = [
        *(sys.executable, "-m", "headrace_server", "--backend", "simulated", "--port", "0"),
        *("--served-model-name", "tiny", "small", "--simulated-step-seconds", "0.002"),
        *("--max-num-seqs", "1", "--max-queued-requests", "1", "--log-level", "warning"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        for line in process.stdout:
            news = json.loads(line)
            if news["event"] == "ready":
                break
        yield news["address"]
    finally:
        process.terminate()
        process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0


@pytest.fixture
def client(target):
    with Client(target) as client:
        yield client


@pytest.fixture
def single_attempt(target):
    with Client(target, max_attempts=1) as client:
        yield client


def test_pieces_joined_are_the_whole_answer(client):
    """With one seed, the pieces of a stream joined equal the answer of generate."""
    options = {"temperature": 1.0, "seed": 7, "max_output_tokens": 20, "ignore_end_of_text": True}
    whole = client.generate("Once", **options)
    with client.stream("Once", **options) as stream:
        deltas = list(stream)
    assert whole.usage.output_token_count == len(whole.token_ids) == 20
    assert "".join(delta.text for delta in deltas) == whole.text
    assert sum((delta.token_ids for delta in deltas), ()) == whole.token_ids
    assert [delta.finish for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert deltas[-1].finish == whole.finish
    assert whole.finish_reason is FinishReason.MAX_OUTPUT_TOKENS
    assert stream.generation.usage == whole.usage
    assert whole.request_id
    assert 0 < whole.timing.first_token_seconds <= whole.timing.total_seconds


def test_every_wish_for_an_answer_is_met(client):
    """Candidates, a form, likelihoods and penalties, all in one call."""
    whole = client.generate(
        "Once",
        candidate_count=2,
        seed=7,
        regex="[a-d]{40}",
        top_logprobs=2,
        prompt_logprobs=1,
        presence_penalty=0.5,
        frequency_penalty=0.5,
        repetition_penalty=1.1,
        logit_bias={ord("a"): 5},
        priority=3,
        cache_salt="salt",
    )
    assert len(whole.candidates) == 2
    for candidate in whole.candidates:
        assert re.fullmatch("[a-d]{40}", candidate.text)
        assert candidate.finish_reason is FinishReason.END_OF_TEXT
        told = b"".join(each.token_bytes for each in candidate.logprobs)
        assert told.decode() == candidate.text
        assert [len(each.top) for each in candidate.logprobs] == [2] * len(candidate.token_ids)
    assert whole.usage.output_token_count == sum(len(c.token_ids) for c in whole.candidates)
    assert b"".join(each.token_bytes for each in whole.prompt_logprobs) == b"Once"


def test_a_form_that_cannot_be_followed_is_an_option_at_fault(client):
    """The error names the option, and an unreadable schema is told in words."""
    with pytest.raises(headrace.InvalidRequestError) as caught:
        client.generate("Once", json_schema={"type": "nothing"})
    assert (caught.value.field, caught.value.reason) == ("json_schema", "INVALID_CONSTRAINT")


async def test_both_clients_get_the_same(client, target):
    """The asynchronous client gets the answer that the blocking one gets."""
    options = {"temperature": 0.0, "max_output_tokens": 10}
    expected = client.generate("Once", **options)
    async with AsyncClient(target) as async_client:
        answer = await async_client.generate("Once", **options)
        assert await async_client.check_health()
        assert (await async_client.get_model("small")).name == "tiny"
    assert (answer.text, answer.token_ids) == (expected.text, expected.token_ids)


def test_every_kind_of_prompt_is_answered(client):
    """Text, its token ids, and a conversation are answered; the first two alike."""
    token_ids = client.tokenize("Once").token_ids
    options = {"temperature": 0.0, "max_output_tokens": 5}
    assert (
        client.generate(token_ids=token_ids, **options).text
        == client.generate("Once", **options).text
    )
    messages = [{"role": "user", "content": "Hi"}]
    assert client.generate(messages=messages, **options).usage.output_token_count > 0


def test_tokens_become_text_again(client):
    """Detokenize gives back the text that tokenize was given."""
    text = "Grüße 🌍"
    tokenization = client.tokenize(text)
    assert tokenization.text == text
    assert client.detokenize(tokenization.token_ids) == text
    rendered = client.tokenize(messages=[{"role": "user", "content": text}])
    assert text in rendered.text


def test_models_are_described(client):
    """The served model is listed with its names."""
    (model,) = client.list_models()
    assert (model.name, model.aliases) == ("tiny", ("small",))
    assert client.get_model() == model
    assert headrace.Capability.CHAT in model.capabilities


@pytest.mark.parametrize(
    ("options", "error_class", "field"),
    [
        ({"temperature": 3.0}, headrace.InvalidRequestError, "temperature"),
        ({"temperature": float("nan")}, headrace.InvalidRequestError, "temperature"),
        ({"stop": ["ok", ""]}, headrace.InvalidRequestError, "stop[1]"),
        ({"max_seconds": -1.0}, headrace.InvalidRequestError, "max_seconds"),
        ({"chunk_min_tokens": 0}, headrace.InvalidRequestError, "chunk_min_tokens"),
        ({"model": "gpt-4"}, headrace.ModelNotFoundError, None),
        (
            {"max_output_tokens": 100_000},
            headrace.ContextLengthExceededError,
            "max_output_tokens",
        ),
    ],
)
def test_refusals_have_their_class_and_field(client, options, error_class, field):
    """The server's refusals are raised as their classes, with the option at fault."""
    with pytest.raises(error_class) as caught:
        list(client.stream("Once", **options))
    assert type(caught.value) is error_class
    assert caught.value.field == field
    assert caught.value.request_id


@pytest.fixture
def busy(single_attempt):
    """A client of the server whose only place in the batch is taken."""
    with single_attempt.stream("Endless", **ENDLESS) as running:
        pieces = iter(running)
        next(pieces)
        yield single_attempt


def test_an_overload_says_when_to_try_again(busy):
    """Over the bound of the queue a request is refused with a time to try again."""
    with busy.stream("One waits", **ENDLESS), pytest.raises(headrace.OverloadedError) as caught:
        busy.generate("One too many")
    assert caught.value.retry_after_seconds > 0


def test_max_queue_seconds_ends_the_wait(busy):
    """A request that waits for longer than it wants to is told so."""
    with pytest.raises(headrace.QueueTimeoutError):
        busy.generate("Impatient", max_queue_seconds=0.05)


def test_leaving_makes_room_for_the_next(client):
    """A stream that was left holds nothing: the only place in the batch is free at once."""
    for _ in range(5):
        for _ in client.stream("Endless", **ENDLESS):
            break
    generation = client.generate("Short", max_output_tokens=1)
    assert generation.timing.queue_seconds < 10.0  # the answers that were left take longer


def test_max_seconds_ends_the_answer_with_what_there_is(client):
    """Past max_seconds an answer ends well, with what was made until then."""
    generation = client.generate("Endless", max_seconds=0.3, **ENDLESS)
    assert generation.finish_reason is FinishReason.TIME_LIMIT
    assert 0 < generation.usage.output_token_count < 8000


def test_a_tool_that_must_be_called(client):
    """Its arguments are as the schema says, and it is sent back with the result."""
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}
    tools = [{"name": "count", "parameters": schema}]
    question = {"role": "user", "content": "How many?"}
    answer = client.generate(messages=[question], tools=tools, tool_choice="count")
    [call] = answer.tool_calls
    assert call.arguments["n"] in (1, 2)
    assert (call.name, answer.text) == ("count", "")
    assert answer.finish_reason is FinishReason.TOOL_CALLS
    turn = {"role": "assistant", "content": answer.text, "tool_calls": answer.tool_calls}
    result = {"role": "tool", "content": "2", "tool_call_id": call.id}
    text = client.tokenize(messages=[question, turn, result], tools=tools).text
    assert '"name": "count"' in text
    assert "<tool_response>\n2\n</tool_response>" in text
    assert headrace.Capability.TOOLS in client.get_model().capabilities
