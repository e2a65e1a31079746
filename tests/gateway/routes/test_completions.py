"""POST /v1/completions over HTTP, in front of a scripted server."""

from collections import defaultdict

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.logprobs_pb2 import TokenLogprobs
from headrace.v1.stopping_pb2 import FINISH_REASON_MAX_OUTPUT_TOKENS
from tests.client.scripted_server import Admit, Hold, Refusal, end, piece
from tests.gateway.conftest import events_of

PATH = "/v1/completions"
CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
MEGABYTE = 1024 * 1024


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


def pour(request):
    """A script: a text of ten megabytes."""
    yield Admit()
    for _ in range(9):
        yield piece("a" * MEGABYTE)
    yield end("b" * MEGABYTE)


@pytest.mark.parametrize(("path", "prompt"), [(PATH, {"prompt": ["a", "b"]}), CHAT])
async def test_what_is_held_of_an_answer_has_a_bound(gateway, server, path, prompt):
    """A blocking answer that grows past it is refused and stopped, and the same one streams."""
    server.script = pour
    assert await gateway.post_for_error(path, prompt) == (
        400,
        {
            "message": "The answer has passed the 8388608 bytes that are held of one; ask for "
            "less, such as by n, logprobs or the maximum of tokens, or stream a chat or a "
            "completion.",
            "type": "invalid_request_error",
            "param": None,
            "code": "answer_too_large",
        },
    )
    num_bytes = 0
    async with gateway.post(path, {**prompt, "stream": True}) as response:
        async for line in response.content.iter_any():
            num_bytes += len(line)
            last = line
    assert num_bytes > 10 * MEGABYTE
    assert last.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {**CHAT[1], "max_tokens": 5}),
        ("/v1/responses", {"input": "a"}),
        ("/v1/responses", {"input": "a", "stream": True}),
    ],
)
async def test_other_dialects_hold_no_more(gateway, server, path, body):
    """Also a stream whose last event repeats the answer ends with the error."""
    server.script = pour
    async with gateway.post(path, body) as response:
        text = await response.text()
    assert response.status == (200 if "stream" in body else 400)
    assert "The answer has passed the 8388608 bytes that are held of one" in text
    assert "response.completed" not in text


async def test_log_probabilities_of_a_prompt_count_for_each_choice(gateway, server):
    """They are told by all choices, so that sixteen hold sixteen times as much."""
    told = [TokenLogprobs(token_id=1, token_bytes=b"a" * 1000, logprob=-1.0)] * 1000

    def script(request):
        yield Admit()
        yield pb.GenerateResponse(prompt_logprobs=told)
        last = end()
        for index in range(1, request.sampling.candidate_count):
            last.deltas.add(candidate_index=index).finish.reason = FINISH_REASON_MAX_OUTPUT_TOKENS
        yield last

    server.script = script
    body = {"prompt": "a" * 1000, "echo": True, "logprobs": 0, "max_tokens": 1}
    async with gateway.post(PATH, {**body, "n": 2}) as response:
        assert len((await response.json())["choices"]) == 2
    status, error = await gateway.post_for_error(PATH, {**body, "n": 16})
    assert (status, error["code"]) == (400, "answer_too_large")


@pytest.mark.parametrize("stream", [False, True])
async def test_what_choices_repeat_of_their_prompts_has_a_bound(gateway, server, stream):
    """It is told before anything is made; without the echo the prompt is taken."""
    body = {"prompt": "a" * 1_000_000, "n": 16, "stream": stream}
    assert await gateway.post_for_error(PATH, {**body, "echo": True}) == (
        400,
        {
            "message": "The choices would repeat 16000000 characters of their prompts, more than "
            "8388608; ask for fewer, or without echo and return_token_ids.",
            "type": "invalid_request_error",
            "param": "n",
            "code": None,
        },
    )
    assert server.calls == []
    server.script = lambda request: iter([Refusal(grpc.StatusCode.NOT_FOUND, "Reached.")])
    status, _ = await gateway.post_for_error(PATH, body)
    assert (status, len(server.calls)) == (404, 1)
