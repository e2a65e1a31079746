"""POST /v1/chat/completions over HTTP, in front of a scripted server."""

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.stopping_pb2 import FINISH_REASON_MAX_OUTPUT_TOKENS
from tests.client.scripted_server import Admit, Refusal, a_model, end, piece
from tests.gateway.conftest import events_of

PATH = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Hi"}]
TOO_LONG = Refusal(
    grpc.StatusCode.INVALID_ARGUMENT,
    "stopping.max_output_tokens is 9000 and the token count of the prompt is 5.",
    "CONTEXT_LENGTH_EXCEEDED",
    "stopping.max_output_tokens",
)


@pytest.mark.parametrize("path", [PATH, "/chat/completions"])
async def test_a_whole_answer(gateway, server, path):
    """A blocking chat is answered in one piece, which the server was asked for."""
    async with gateway.post(path, {"model": "small", "messages": MESSAGES}) as response:
        body = await response.json()
    assert response.status == 200
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "small"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello 🌍", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"]["total_tokens"] == 8
    [call] = server.calls
    assert (call.request.model, call.request.output.chunking.whole) == ("small", True)


async def test_a_streamed_answer(gateway):
    """A stream has the role, the pieces, the end and [DONE], all of one id."""
    body = {"messages": MESSAGES, "stream": True}
    async with gateway.post(PATH, body) as response:
        *chunks, done = events_of(await response.text())
    assert done == "[DONE]"
    assert [(c["choices"][0]["delta"], c["choices"][0]["finish_reason"]) for c in chunks] == [
        ({"role": "assistant", "content": ""}, None),
        ({"content": "Hel"}, None),
        ({"content": "lo 🌍"}, None),
        ({}, "stop"),
    ]
    assert len({(c["id"], c["created"], c["model"]) for c in chunks}) == 1
    assert all("usage" not in chunk for chunk in chunks)
    headers = {
        name: response.headers.get(name)
        for name in ("Content-Type", "Cache-Control", "X-Accel-Buffering", "Content-Encoding")
    }
    assert headers == {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-cache",
        "X-Accel-Buffering": "no",
        "Content-Encoding": None,
    }


async def test_usage_comes_last_and_only_on_request(gateway):
    """With include_usage the counts come in a chunk without choices before [DONE]."""
    body = {"messages": MESSAGES, "stream": True, "stream_options": {"include_usage": True}}
    async with gateway.post(PATH, body) as response:
        *chunks, last, done = events_of(await response.text())
    assert done == "[DONE]"
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 8)
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)


async def test_without_a_model_the_answer_names_the_served_one(gateway, server):
    """A caller who names no model learns which one has answered, from the call that it made."""
    server.models = [a_model("tiny-é")]
    async with gateway.post(PATH, {"messages": MESSAGES}) as response:
        assert (await response.json())["model"] == "tiny-é"
    assert server.calls[0].request.model == ""
    assert server.unary_request is None


async def test_an_upper_bound_beyond_the_context_is_no_error(gateway, server):
    """The server fills the room of the context when the bound does not fit into it."""

    def script(request):
        if request.stopping.HasField("max_output_tokens"):
            yield TOO_LONG
        yield Admit()
        yield end("Hi", reason=FINISH_REASON_MAX_OUTPUT_TOKENS)

    server.script = script
    for field in ("max_tokens", "max_completion_tokens"):
        async with gateway.post(PATH, {"messages": MESSAGES, field: 9000}) as response:
            assert (await response.json())["choices"][0]["finish_reason"] == "length"


async def test_a_prompt_beyond_the_context_is_an_error(gateway, server):
    """When the prompt alone is too long, no bound can help; the caller is told both numbers."""

    def script(request):
        yield Refusal(TOO_LONG.code, "The prompt is too long.", TOO_LONG.reason, "chat.messages")

    server.script = script
    error = await gateway.post_for_error(PATH, {"messages": MESSAGES, "max_tokens": 9000})
    assert error == (
        400,
        {
            "message": "The prompt is too long.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    )
    assert len(server.calls) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_before_admission_has_its_own_status(gateway, server, stream):
    """Nothing is committed before the server has taken the request, also for a stream."""

    def script(request):
        yield Refusal(
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "The queue is full; try again.",
            "OVERLOADED",
            retry_after_seconds=2.5,
        )

    server.script = script
    async with gateway.post(PATH, {"messages": MESSAGES, "stream": stream}) as response:
        error = (await response.json())["error"]
    assert (response.status, error["message"]) == (429, "The queue is full; try again.")
    assert response.headers["Retry-After"] == "3"
    assert response.headers["retry-after-ms"] == "2500"


async def test_an_error_after_the_start_is_the_last_event(gateway, server):
    """An answer that breaks off says so in the stream, and does not look finished."""

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield Refusal(
            grpc.StatusCode.UNAVAILABLE, "The engine has died.", "ENGINE_UNAVAILABLE", None, 1.0
        )

    server.script = script
    async with gateway.post(PATH, {"messages": MESSAGES, "stream": True}) as response:
        _role, text, last = events_of(await response.text())
    assert response.status == 200
    assert text["choices"][0]["delta"] == {"content": "Hel"}
    assert last == {
        "error": {
            "message": "The engine has died.",
            "type": "server_error",
            "param": None,
            "code": "engine_unavailable",
        }
    }


async def test_an_error_after_the_start_is_a_status_for_a_blocking_caller(gateway, server):
    """A blocking caller gets no half answers."""

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield Refusal(grpc.StatusCode.UNAVAILABLE, "The engine has died.", "ENGINE_UNAVAILABLE")

    server.script = script
    status, error = await gateway.post_for_error(PATH, {"messages": MESSAGES})
    assert (status, error["code"]) == (503, "engine_unavailable")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_without_an_end_is_an_error(gateway, server, stream):
    """A server that ends a call well without finishing the answer is not believed."""

    def script(request):
        yield Admit()
        yield piece("Hel")

    server.script = script
    async with gateway.post(PATH, {"messages": MESSAGES, "stream": stream}) as response:
        body = events_of(await response.text())[-1] if stream else await response.json()
    assert body["error"]["message"] == "The server did not finish its answer."
    assert response.status == (200 if stream else 500)


async def test_a_server_without_early_headers_is_understood(gateway, server):
    """An admission that comes with the first response only is one too."""

    def script(request):
        yield pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5))
        yield end("Hi")

    server.script = script
    async with gateway.post(PATH, {"messages": MESSAGES, "stream": True}) as response:
        events = events_of(await response.text())
    assert [e["choices"][0]["delta"] for e in events[:-1]] == [
        {"role": "assistant", "content": ""},
        {"content": "Hi"},
        {},
    ]


async def test_an_odd_request_is_refused_before_the_server_is_asked(gateway, server):
    """What is wrong in JSON does not reach the server."""
    status, error = await gateway.post_for_error(PATH, {"messages": MESSAGES, "n": "2"})
    assert (status, error["param"]) == (400, "n")
    assert server.calls == []


async def test_the_server_learns_the_id_of_the_request(gateway, server, access_log):
    """A sane id of the client is echoed, forwarded and logged; the log has no content."""
    headers = {"X-Request-Id": "order-66"}
    body = {"messages": [{"role": "user", "content": "secret"}]}
    async with gateway.post(f"{PATH}?key=secret", body, headers=headers) as response:
        assert response.headers["x-request-id"] == "order-66"
        assert int(response.headers["openai-processing-ms"]) >= 0
    assert server.calls[0].metadata["x-request-id"] == "order-66"
    line = await access_log.next_line()
    del line["total_ms"]
    assert line == {
        "request_id": "order-66",
        "method": "POST",
        "path": PATH,
        "status": 200,
        "prompt_tokens": 5,
        "output_tokens": 3,
        "peer": "127.0.0.1",
        "caller": "127.0.0.1",
    }


@pytest.mark.parametrize("odd", ["x" * 129, "é", "a\tb"])
async def test_an_odd_id_is_replaced(gateway, server, odd):
    """An id that is long or not printable ASCII is not repeated anywhere."""
    async with gateway.post(
        PATH, {"messages": MESSAGES}, headers={"X-Request-Id": odd}
    ) as response:
        given = response.headers["x-request-id"]
    assert given.startswith("req_")
    assert server.calls[0].metadata["x-request-id"] == given
