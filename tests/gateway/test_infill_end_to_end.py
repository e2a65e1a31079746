"""A suffix over HTTP, in front of a tiny model that has the control tokens for it."""

from contextlib import AsyncExitStack

import aiohttp
import pytest
import pytest_asyncio

from headrace_gateway.app import running
from headrace_gateway.config import GatewayConfig
from tests.gateway.conftest import events_of
from tests.server.infilling_model import write_infilling_model
from tests.server.running_server import running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOAD_SECONDS = 120.0
TEXT = "/v1/completions"
BODY = {"prompt": "hello", "suffix": " world", "max_tokens": 12, "temperature": 0}
WRITTEN = "<fim_prefix>hello<fim_suffix> world<fim_middle>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(tmp_path_factory):
    """The real engine behind both fronts, in this process."""
    directory = write_infilling_model(tmp_path_factory.mktemp("infilling"))
    flags = ("--backend", "native", "--model", directory, "--kv-cache-bytes", "16MiB")
    async with AsyncExitStack() as opened:
        server = await opened.enter_async_context(
            running_server(*flags, ready_seconds=LOAD_SECONDS)
        )
        gateway = await opened.enter_async_context(
            running(GatewayConfig(port=0, upstream=server.address))
        )
        yield await opened.enter_async_context(
            aiohttp.ClientSession(f"http://{gateway.address}", raise_for_status=False)
        )


async def post(session, path, body):
    async with session.post(path, json=body) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_the_gap_is_filled_as_by_who_writes_the_layout(session):
    """The answer is that to the control tokens round both texts, whole and as a stream."""
    filled = await post(session, TEXT, BODY)
    asked = await post(session, TEXT, {**BODY, "prompt": WRITTEN, "suffix": None})
    assert filled["choices"] == asked["choices"]
    assert filled["usage"] == asked["usage"]
    plain = await post(session, TEXT, {**BODY, "suffix": ""})
    assert plain["usage"]["prompt_tokens"] < filled["usage"]["prompt_tokens"]
    async with session.post(TEXT, json={**BODY, "stream": True}) as response:
        *events, done = events_of(await response.text())
    assert done == "[DONE]"
    text = "".join(event["choices"][0]["text"] for event in events)
    assert text == filled["choices"][0]["text"]


async def test_control_tokens_in_the_texts_are_plain(session):
    """A caller cannot end the gap by writing its name."""
    written = await post(session, "/v1/tokenize", {"prompt": WRITTEN})
    prefix, middle = written["tokens"][0], written["tokens"][-1]
    body = {**BODY, "prompt": "<fim_middle>", "suffix": "<fim_prefix>", "return_token_ids": True}
    [choice] = (await post(session, TEXT, body))["choices"]
    assert choice["prompt_token_ids"].count(middle) == 1
    assert choice["prompt_token_ids"].count(prefix) == 1


async def test_an_echo_is_prompt_and_answer(session):
    """The suffix is not repeated, and the ids are those that the model has read."""
    wanted = (await post(session, TEXT, BODY))["choices"][0]["text"]
    body = {**BODY, "echo": True, "return_token_ids": True, "n": 2}
    choices = (await post(session, TEXT, body))["choices"]
    ids = (await post(session, "/v1/tokenize", {"prompt": WRITTEN}))["tokens"]
    gap = {"prompt": "hello", "suffix": " world"}
    assert (await post(session, "/v1/tokenize", gap))["tokens"] == ids
    assert [choice["text"] for choice in choices] == ["hello" + wanted] * 2
    assert [choice["prompt_token_ids"] for choice in choices] == [ids] * 2


async def test_several_prompts_share_the_suffix(session):
    """Each gap is filled for itself, also that with nothing before it."""
    together = await post(session, TEXT, {**BODY, "prompt": ["hello", ""]})
    alone = [await post(session, TEXT, {**BODY, "prompt": each}) for each in ("hello", "")]
    expected = [answer["choices"][0]["text"] for answer in alone]
    assert [choice["text"] for choice in together["choices"]] == expected


async def test_the_answer_ends_where_another_text_would_begin(session):
    """A token of the family that follows an answer is its end."""
    pad = (await post(session, "/v1/tokenize", {"prompt": "<fim_pad>"}))["tokens"][0]
    answer = await post(session, TEXT, {**BODY, "logit_bias": {str(pad): 100}})
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("", "stop")
    assert answer["usage"]["completion_tokens"] == 1


async def test_a_form_is_kept_in_the_gap(session):
    """What a wish says of the answer holds for the text between."""
    body = {**BODY, "guided_choice": ["one", "two"], "logit_bias": None}
    [choice] = (await post(session, TEXT, body))["choices"]
    assert choice["text"] in ("one", "two")
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"prompt": [1, 2]}, "suffix"),
        ({"suffix": 5}, "suffix"),
        ({"echo": True, "logprobs": 1}, "suffix"),
        ({"suffix": "x" * 100_000}, "suffix"),
        ({"max_tokens": 253}, "max_tokens"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_name(session, fields, param):
    """Tokens have no suffix, and both texts must fit the context."""
    async with session.post(TEXT, json={**BODY, **fields}) as response:
        error = (await response.json())["error"]
    assert (response.status, error["param"]) == (400, param)
