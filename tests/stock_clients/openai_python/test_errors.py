"""Errors, retries and time limits, as users of openai-python meet them."""

import asyncio

import openai
import pytest

from tests.gateway.service import MODEL, START_SECONDS

MESSAGES = [{"role": "user", "content": "Hey"}]
ASKED = {"model": MODEL, "messages": MESSAGES, "max_tokens": 2, "seed": 1}
# Runs to the end of the context unless it is left: minutes.
ENDLESS = ASKED | {"max_tokens": 8000, "extra_body": {"ignore_eos": True}}


def client_of(service, **options):
    options = {"max_retries": 0, **options}
    return openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", **options)


def async_client_of(service, **options):
    return openai.AsyncOpenAI(base_url=f"{service.url}/v1", api_key="unused", **options)


@pytest.mark.parametrize(
    ("fields", "error_class", "code", "param"),
    [
        ({"temperature": 3}, openai.BadRequestError, None, "temperature"),
        ({"messages": []}, openai.BadRequestError, None, "messages"),
        ({"model": "gpt-5"}, openai.NotFoundError, "model_not_found", "model"),
    ],
)
def test_a_request_that_will_not_do_is_not_sent_again(service, fields, error_class, code, param):
    """The library's class, code and field are those of the error, and it does not retry."""
    with (
        client_of(service, max_retries=5) as client,
        pytest.raises(error_class) as refusal,
    ):
        client.chat.completions.create(**ASKED | fields)
    assert (refusal.value.code, refusal.value.param) == (code, param)
    assert refusal.value.type == "invalid_request_error"
    assert refusal.value.response.request.headers["x-stainless-retry-count"] == "0"
    assert refusal.value.request_id == refusal.value.response.headers["x-request-id"]


def test_an_id_that_is_in_use_is_a_conflict(service):
    """A label that a running request has is refused to a second one."""
    named = {"extra_body": {"request_id": "mine", "ignore_eos": True}}
    with client_of(service) as client:
        with client.chat.completions.create(**ENDLESS | named, stream=True) as running:
            next(running)
            with pytest.raises(openai.ConflictError) as refusal:
                client.chat.completions.create(**ASKED | named)
        assert (refusal.value.status_code, refusal.value.code) == (409, "duplicate_request_id")


def full(client):
    """Begin one answer, and have another wait behind it, so that there is no room."""
    running = client.chat.completions.create(**ENDLESS, stream=True)
    next(running)
    return [running, client.chat.completions.create(**ENDLESS, stream=True)]


def test_overload_is_a_rate_limit_with_the_time_to_wait(narrow_service):
    """The class is the one that programs wait for, and both headers tell how long."""
    with client_of(narrow_service) as client:
        streams = full(client)
        with pytest.raises(openai.RateLimitError) as refusal:
            client.chat.completions.create(**ASKED)
        for stream in streams:
            stream.close()
    assert (refusal.value.code, refusal.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    headers = refusal.value.response.headers
    assert int(headers["retry-after"]) >= 1
    assert 0 < float(headers["retry-after-ms"]) <= 1000 * int(headers["retry-after"])


async def test_the_library_retries_until_there_is_room(narrow_service):
    """It takes 429 for what it is, waits as told, and its caller sees only the answer."""
    statuses, streams = [], []

    async def make_room(response):
        statuses.append(response.status_code)
        if response.status_code == 429:
            for stream in streams:
                await stream.close()

    hooks = {"response": [make_room]}
    async with (
        async_client_of(narrow_service) as others,
        async_client_of(
            narrow_service,
            max_retries=20,
            http_client=openai.DefaultAsyncHttpxClient(event_hooks=hooks),
        ) as client,
    ):
        streams += [await others.chat.completions.create(**ENDLESS, stream=True) for _ in range(2)]
        raw = await client.chat.completions.with_raw_response.create(**ASKED)
    assert (statuses[0], statuses[-1]) == (429, 200)
    assert raw.retries_taken == len(statuses) - 1
    assert raw.parse().usage.completion_tokens == 2


def test_a_server_that_is_gone_is_unavailable(narrow_service):
    """The gateway answers for it, with the time to wait."""
    narrow_service.server.popen.kill()
    narrow_service.server.popen.wait(START_SECONDS)
    with client_of(narrow_service) as client, pytest.raises(openai.InternalServerError) as refusal:
        client.chat.completions.create(**ASKED)
    assert (refusal.value.status_code, refusal.value.code) == (503, "server_unavailable")
    assert int(refusal.value.response.headers["retry-after"]) >= 1


def test_an_answer_that_is_lost_in_its_middle_is_an_error(narrow_service):
    """A stream does not end as if it were complete."""
    with client_of(narrow_service) as client:
        stream = client.chat.completions.create(**ENDLESS, stream=True)
        next(stream)
        narrow_service.server.popen.kill()
        with pytest.raises(openai.APIError) as failure:
            list(stream)
    assert failure.value.code == "server_unavailable"


def test_the_time_limit_of_the_library_frees_the_engine(narrow_service):
    """It hangs up on a whole answer, and the only place there is serves the next request."""
    with client_of(narrow_service) as client:
        with pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(**ENDLESS, timeout=0.5)
        assert client.chat.completions.create(**ASKED).usage.completion_tokens == 2


def test_the_time_limit_of_the_header_is_a_timeout(narrow_service):
    """The server ends the answer itself, and says why."""
    with client_of(narrow_service) as client, pytest.raises(openai.InternalServerError) as late:
        client.chat.completions.create(**ENDLESS, extra_headers={"X-Request-Timeout": "0.5"})
    assert (late.value.status_code, late.value.code) == (504, "deadline_exceeded")


def test_leaving_a_stream_frees_the_engine(narrow_service):
    """The next request gets the only place there is."""
    with client_of(narrow_service) as client:
        with client.chat.completions.create(**ENDLESS, stream=True) as stream:
            next(stream)
        assert client.chat.completions.create(**ASKED).usage.completion_tokens == 2


async def test_cancelling_a_task_frees_the_engine(narrow_service):
    """So does a task of asyncio that is cancelled in its wait for a whole answer."""
    async with async_client_of(narrow_service) as client:
        waiting = asyncio.create_task(client.chat.completions.create(**ENDLESS))
        while await load_of(narrow_service, client) == 0:
            pass
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        answer = await client.chat.completions.create(**ASKED)
    assert answer.usage.completion_tokens == 2


async def load_of(service, client):
    """Ask how many generations are under way."""
    return (await client.get(f"{service.url}/load", cast_to=object))["server_load"]
