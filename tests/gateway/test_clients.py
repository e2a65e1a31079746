"""The clients that people have: OpenAI's library, blocking, streaming and async, and curl."""

import json
import subprocess

import openai
import pytest

from tests.gateway.conftest import events_of
from tests.gateway.service import MODEL

MESSAGES = [{"role": "user", "content": "Hey"}]


@pytest.fixture
def client(service):
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


def test_a_chat(client):
    """The types of the library fit an answer."""
    # A salt of its own, so that no other test has filled the cache of prompts.
    salt = {"cache_salt": "a chat of its own"}
    answer = client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=5, seed=1, extra_body=salt
    )
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 5
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


def test_a_judged_prompt(client):
    """The types of the library fit the arrays of a completion, those of its prompt included."""
    asked = {"model": MODEL, "prompt": ["Hey you", "Ho"], "logprobs": 2, "seed": 1}
    answer = client.completions.create(**asked, echo=True, max_tokens=0)
    assert [choice.text for choice in answer.choices] == ["Hey you", "Ho"]
    first, second = (choice.logprobs for choice in answer.choices)
    assert "".join(first.tokens) == "Hey you"
    assert first.token_logprobs[0] is None
    assert all(logprob <= 0 for logprob in first.token_logprobs[1:])
    assert first.text_offset[0] == 0
    assert len(second.top_logprobs) == len(second.tokens)
    pieces = list(client.completions.create(**asked, max_tokens=6, stream=True))
    whole = client.completions.create(**asked, max_tokens=6)
    for index, choice in enumerate(whole.choices):
        mine = [piece.choices[0] for piece in pieces if piece.choices[0].index == index]
        tokens = [token for piece in mine if piece.logprobs for token in piece.logprobs.tokens]
        assert "".join(piece.text for piece in mine) == choice.text
        assert tokens == choice.logprobs.tokens


def test_a_streamed_chat(client):
    """A stream joins to the blocking answer, and its last chunk has the counts."""
    asked = {"model": MODEL, "messages": MESSAGES, "max_completion_tokens": 50, "seed": 1}
    whole = client.chat.completions.create(**asked)
    stream = client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    )
    *chunks, last = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole.choices[0].message.content
    assert last.usage.completion_tokens == whole.usage.completion_tokens == 50
    assert last.usage.prompt_tokens == whole.usage.prompt_tokens


def test_a_prompt_that_was_seen_is_cached(client):
    """The second time most of its tokens need no computing, and a salt keeps them apart."""
    asked = {"model": MODEL, "max_tokens": 2}
    asked["messages"] = [{"role": "user", "content": "a prompt of its own " * 10}]
    first, second, salted = (
        client.chat.completions.create(**asked, extra_body={"cache_salt": salt}).usage
        for salt in ("a salt of its own", "a salt of its own", "another salt")
    )
    assert first.prompt_tokens_details.cached_tokens == 0
    assert second.prompt_tokens_details.cached_tokens > second.prompt_tokens // 2
    assert salted.prompt_tokens_details.cached_tokens == 0


def test_several_answers(client):
    """Each is a choice, blocking and streaming alike."""
    asked = {"model": MODEL, "messages": MESSAGES, "max_tokens": 20, "seed": 1, "n": 3}
    whole = client.chat.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == [0, 1, 2]
    texts, ends = ["", "", ""], []
    for chunk in client.chat.completions.create(**asked, stream=True):
        [choice] = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        ends += [choice.index] if choice.finish_reason else []
    assert texts == [choice.message.content for choice in whole.choices]
    assert sorted(ends) == [0, 1, 2]


def test_log_probabilities(client):
    """The types of the library fit them, and their bytes are the text, blocking and streaming."""
    asked = {"model": MODEL, "messages": MESSAGES, "max_tokens": 20, "seed": 1}
    asked |= {"logprobs": True, "top_logprobs": 2}
    [choice] = client.chat.completions.create(**asked).choices
    content = choice.logprobs.content
    text = b"".join(bytes(each.bytes) for each in content).decode("utf-8", "replace")
    assert text == choice.message.content
    assert all(each.logprob <= 0 and len(each.top_logprobs) == 2 for each in content)
    streamed = []
    for chunk in client.chat.completions.create(**asked, stream=True):
        if chunk.choices[0].logprobs:
            streamed += chunk.choices[0].logprobs.content
    assert streamed == content


@pytest.mark.parametrize("top_logprobs", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_each_token_has_its_log_probability(client, seed, top_logprobs):
    """There are as many as tokens were counted, the end of text among them."""
    answer = client.chat.completions.create(
        model=MODEL,
        messages=MESSAGES,
        # The one text that is allowed ends by itself.
        extra_body={"structured_outputs": {"choice": ["yes"]}},
        seed=seed,
        logprobs=True,
        top_logprobs=top_logprobs,
    )
    [choice] = answer.choices
    told = choice.logprobs.content
    assert choice.finish_reason == "stop"
    assert len(told) == answer.usage.completion_tokens
    assert b"".join(bytes(each.bytes) for each in told).decode() == choice.message.content


def test_an_answer_in_a_form(client):
    """A schema is kept to, and one that cannot be is refused with words for people."""
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green"]}, "number": {"enum": [1, 2]}},
        "required": ["colour", "number"],
        "additionalProperties": False,
    }
    asked = {"model": MODEL, "messages": MESSAGES, "max_tokens": 200}
    form = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
    answer = client.chat.completions.create(**asked, response_format=form)
    value = json.loads(answer.choices[0].message.content)
    assert (value["colour"] in ("red", "green"), value["number"] in (1, 2)) == (True, True)
    assert answer.choices[0].finish_reason == "stop"
    form["json_schema"]["schema"] = {"not": {}}
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(**asked, response_format=form)
    assert refusal.value.param == "response_format"
    assert '"not"' in refusal.value.message


async def test_async_chats(service):
    """The async client streams as well, and leaving its stream early is fine."""
    async with openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="unused") as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=MESSAGES, max_tokens=8000, stream=True
        )
        async with stream:
            async for chunk in stream:
                assert chunk.choices[0].delta.role == "assistant"
                break
        answer = await client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=2)
    assert answer.usage.completion_tokens == 2


def test_completions(client):
    """The older endpoint takes several prompts."""
    answer = client.completions.create(model=MODEL, prompt=["a", "b"], max_tokens=3, echo=True)
    assert [choice.text[0] for choice in answer.choices] == ["a", "b"]
    chunks = list(client.completions.create(model=MODEL, prompt="a", max_tokens=3, stream=True))
    assert chunks[-1].choices[0].finish_reason in ("length", "stop")


def test_models(client):
    """Models are listed and found."""
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_errors_have_their_classes(client):
    """Each status is the exception that users of the library catch."""
    with pytest.raises(openai.BadRequestError) as refusal:
        client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=3)
    assert (refusal.value.param, refusal.value.type) == ("temperature", "invalid_request_error")
    with pytest.raises(openai.NotFoundError) as refusal:
        client.chat.completions.create(model="gpt-4", messages=MESSAGES)
    assert (refusal.value.code, refusal.value.param) == ("model_not_found", "model")
    assert refusal.value.request_id.startswith("req_")
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=MODEL, input="Hey")


def test_curl_shows_a_stream(service):
    """Plain curl prints the events as they come."""
    body = '{"prompt": "Hey", "max_tokens": 5, "ignore_eos": true, "stream": true}'
    command = ["curl", "-sN", f"{service.url}/v1/completions", "-d", body]
    command += ["-H", "Content-Type: application/json"]
    result = subprocess.run(command, capture_output=True, check=True, timeout=30)
    *chunks, done = events_of(result.stdout.decode())
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert done == "[DONE]"
