"""POST /v1/completions over HTTP, in front of a scripted server."""

from collections import defaultdict

import grpc
import pytest

from headrace.v1.stopping_pb2 import FINISH_REASON_MAX_OUTPUT_TOKENS
from tests.client.scripted_server import Admit, Hold, Refusal, end, piece
from tests.gateway.conftest import events_of

PATH = "/v1/completions"


def shout(request):
    """A script: the prompt in two pieces, louder."""
    words = request.text or " ".join(str(i) for i in request.token_ids.ids)
    yield Admit()
    yield piece(words.upper())
    yield end("!", reason=FINISH_REASON_MAX_OUTPUT_TOKENS)


@pytest.mark.parametrize("path", [PATH, "/completions"])
async def test_a_whole_answer(gateway, server, path):
    """A blocking completion is one choice of text."""
    server.script = shout
    async with gateway.post(path, {"prompt": "hey", "max_tokens": 2}) as response:
        body = await response.json()
    assert body["id"].startswith("cmpl-")
    assert body["object"] == "text_completion"
    assert body["choices"] == [
        {"index": 0, "text": "HEY!", "logprobs": None, "finish_reason": "length"}
    ]
    assert server.calls[0].request.stopping.max_output_tokens == 2


async def test_several_prompts_are_answered_at_once(gateway, server):
    """Each prompt has its choice; usage counts all of them."""
    server.script = shout
    async with gateway.post(PATH, {"prompt": ["a", "b", "c"]}) as response:
        body = await response.json()
    assert [(c["index"], c["text"]) for c in body["choices"]] == [(0, "A!"), (1, "B!"), (2, "C!")]
    assert body["usage"]["total_tokens"] == 24
    assert len(server.calls) == 3


async def test_several_prompts_stream_over_one_response(gateway, server):
    """The pieces of each index join to its answer, each with one end, and [DONE] comes once."""
    server.script = shout
    body = {"prompt": [[1, 2], [3]], "stream": True, "stream_options": {"include_usage": True}}
    async with gateway.post(PATH, body) as response:
        *chunks, last, done = events_of(await response.text())
    texts, ends = defaultdict(str), defaultdict(list)
    for chunk in chunks:
        [choice] = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        if choice["finish_reason"]:
            ends[choice["index"]].append(choice["finish_reason"])
    assert texts == {0: "1 2!", 1: "3!"}
    assert ends == {0: ["length"], 1: ["length"]}
    assert (last["choices"], last["usage"]["total_tokens"], done) == ([], 16, "[DONE]")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_refused_takes_the_others_along(gateway, server, stream):
    """When one of several prompts fails, the others are cancelled, and the caller is told."""
    hold = Hold()

    def script(request):
        if request.text == "bad":
            hold.reached.wait(10)
            yield Refusal(grpc.StatusCode.INVALID_ARGUMENT, "Bad.", "INVALID_FIELD", "text")
        yield Admit()
        yield hold

    server.script = script
    body = {"prompt": ["good", "bad"], "stream": stream}
    status, error = await gateway.post_for_error(PATH, body)
    assert (status, error["message"], error["param"]) == (400, "Bad.", "prompt")
    good = next(call for call in server.calls if call.request.text == "good")
    assert good.wait_until_cancelled()


async def test_one_of_several_that_fails_later_ends_the_stream(gateway, server):
    """After the start the error of one prompt is the last event, and the others are cancelled."""
    hold = Hold()

    def script(request):
        yield Admit()
        if request.text == "bad":
            yield piece("so far")
            yield Refusal(grpc.StatusCode.INTERNAL, "It failed under 1234.", "INTERNAL")
        yield hold

    server.script = script
    async with gateway.post(PATH, {"prompt": ["good", "bad"], "stream": True}) as response:
        *_, last = events_of(await response.text())
    assert last["error"]["message"] == "It failed under 1234."
    good = next(call for call in server.calls if call.request.text == "good")
    assert good.wait_until_cancelled()


async def test_an_echo_begins_with_the_prompt(gateway, server):
    """The text of a prompt is its own, that of token ids comes from the server."""
    server.script = shout
    async with gateway.post(PATH, {"prompt": [[7, 8]], "echo": True}) as response:
        assert (await response.json())["choices"][0]["text"] == "7 87 8!"
    async with gateway.post(PATH, {"prompt": ["a", "b"], "echo": True, "stream": True}) as response:
        *chunks, _ = events_of(await response.text())
    texts = defaultdict(str)
    for chunk in chunks:
        texts[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert texts == {0: "aA!", 1: "bB!"}


async def test_the_length_of_a_completion_is_exact(gateway, server):
    """A completion that does not fit the context is refused, not cut."""

    def script(request):
        yield Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            "Too long.",
            "CONTEXT_LENGTH_EXCEEDED",
            "stopping.max_output_tokens",
        )

    server.script = script
    status, error = await gateway.post_for_error(PATH, {"prompt": "a", "max_tokens": 9000})
    assert (status, error["param"]) == (400, "max_tokens")
    assert error["code"] == "context_length_exceeded"


async def test_an_old_client_gets_a_stream_without_chunks(gateway, server):
    """A client of HTTP/1.0 reads until the end of the connection."""
    server.script = shout
    data = b'{"prompt": "a", "stream": true}'
    reply = await gateway.exchange_bytes(
        b"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(data), data)
    )
    head, _, body = reply.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.0 200 OK")
    assert b"Transfer-Encoding" not in head
    assert events_of(body.decode())[-1] == "[DONE]"
