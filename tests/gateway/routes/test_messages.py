"""POST /v1/messages and /v1/messages/count_tokens over HTTP, in front of a scripted server."""

import asyncio
import json

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.stopping_pb2 import FINISH_REASON_MAX_OUTPUT_TOKENS
from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, Refusal, a_model, end, piece

PATH = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
BODY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
DIED = Refusal(grpc.StatusCode.UNAVAILABLE, "The engine has died.", "ENGINE_UNAVAILABLE", None, 1.0)


def events_of(text):
    """Return the names and the data of the events of a stream."""
    events = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        events.append(event)
    return events


async def post_for_error(gateway, path, body, **options):
    async with gateway.post(path, body, **options) as response:
        answer = await response.json()
        assert answer["request_id"] == response.headers["request-id"]
    assert answer["type"] == "error"
    return response.status, answer["error"]["type"], answer["error"]["message"]


@pytest.mark.parametrize("path", [PATH, "/messages"])
async def test_a_whole_answer(gateway, server, path):
    """Keys and versions of Anthropic's clients are taken as they are."""
    headers = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
    async with gateway.post(path, BODY | {"model": "small"}, headers=headers) as response:
        body = await response.json()
    assert response.status == 200
    assert body.pop("id").startswith("msg_")
    assert body == {
        "type": "message",
        "role": "assistant",
        "model": "small",
        "content": [{"type": "text", "text": "Hello 🌍"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 5,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 3,
            "output_tokens_details": {"thinking_tokens": 0},
        },
    }
    assert response.headers["request-id"] == response.headers["x-request-id"]
    [call] = server.calls
    assert (call.request.model, call.request.stopping.max_output_tokens) == ("small", 9)


async def test_a_streamed_answer(gateway, access_log):
    """Each event has its type for a name, and nothing follows the last."""
    async with gateway.post(PATH, BODY | {"stream": True}) as response:
        events = events_of(await response.text())
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert [event["type"] for event in events] == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert events[0]["message"]["usage"]["input_tokens"] == 5
    assert [event["delta"]["text"] for event in events[3:5]] == ["Hel", "lo 🌍"]
    assert events[-2]["usage"]["output_tokens"] == 3
    line = await access_log.next_line()
    assert (line["prompt_tokens"], line["output_tokens"]) == (5, 3)


async def test_without_a_model_the_answer_names_the_served_one(gateway, server):
    """A caller who names no model learns which one has answered."""
    server.models = [a_model("tiny-é")]
    async with gateway.post(PATH, BODY) as response:
        assert (await response.json())["model"] == "tiny-é"


async def test_tokens_are_counted(gateway, server):
    """The server is given the chat with its tools; no maximum is needed."""
    tools = [{"name": "f", "input_schema": {}}]
    body = {"messages": BODY["messages"], "system": "Be brief.", "tools": tools}
    async with gateway.post(COUNT, body) as response:
        assert (response.status, await response.json()) == (200, {"input_tokens": 3})
    chat = server.unary_request.chat
    assert [message.content for message in chat.messages] == ["Be brief.", "Hi"]
    assert [tool.name for tool in chat.tools] == ["f"]


async def test_an_upper_bound_beyond_the_context_is_no_error(gateway, server):
    """Clients ask for more than there is; the answer fills the room that the prompt leaves."""

    def script(request):
        if request.stopping.HasField("max_output_tokens"):
            yield Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "stopping.max_output_tokens is 9000 and the token count of the prompt is 5.",
                "CONTEXT_LENGTH_EXCEEDED",
                "stopping.max_output_tokens",
            )
        yield Admit()
        yield end("Hi", reason=FINISH_REASON_MAX_OUTPUT_TOKENS)

    server.script = script
    async with gateway.post(PATH, BODY | {"max_tokens": 9000}) as response:
        assert (await response.json())["content"] == [{"type": "text", "text": "Hi"}]
    assert len(server.calls) == 2


@pytest.mark.parametrize(
    ("code", "reason", "status", "kind"),
    [
        ("INVALID_ARGUMENT", "INVALID_FIELD", 400, "invalid_request_error"),
        ("INVALID_ARGUMENT", "CONTEXT_LENGTH_EXCEEDED", 400, "invalid_request_error"),
        ("UNAUTHENTICATED", None, 401, "authentication_error"),
        ("PERMISSION_DENIED", None, 403, "permission_error"),
        ("NOT_FOUND", "MODEL_NOT_FOUND", 404, "not_found_error"),
        ("RESOURCE_EXHAUSTED", "OVERLOADED", 429, "rate_limit_error"),
        ("INTERNAL", "INTERNAL", 500, "api_error"),
        ("UNAVAILABLE", "DRAINING", 529, "overloaded_error"),
        ("DEADLINE_EXCEEDED", "QUEUE_TIMEOUT", 504, "timeout_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_has_its_status_and_type(
    gateway, server, access_log, code, reason, status, kind, stream
):
    """Nothing is committed before the server has taken the request, also for a stream."""

    def script(request):
        yield Refusal(grpc.StatusCode[code], "It is so.", reason)

    server.script = script
    async with gateway.post(PATH, BODY | {"stream": stream}) as response:
        error = (await response.json())["error"]
    assert (response.status, error["type"]) == (status, kind)
    assert error["message"] == "It is so." or reason is None
    assert ("Retry-After" in response.headers) == (status in (429, 529))
    assert (await access_log.next_line())["status"] == status


async def test_an_error_of_the_server_names_the_field_of_the_caller(gateway, server):
    """Messages of the contract are not those of the caller, who is told of his own."""

    def script(request):
        yield Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            "chat.messages[2].tool_calls[0].name must be shorter.",
            "INVALID_FIELD",
            "chat.messages[2].tool_calls[0].name",
        )

    server.script = script
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1"}
    messages = [
        *BODY["messages"],
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    error = await post_for_error(gateway, PATH, BODY | {"messages": messages, "system": "a"})
    assert error == (
        400,
        "invalid_request_error",
        "messages[1].content[0].name must be shorter.",
    )


async def test_an_odd_request_is_refused_before_the_server_is_asked(gateway, server):
    """What is wrong in JSON does not reach the server, for an answer or for a count."""
    for path in (PATH, COUNT):
        body = BODY | {"messages": [{"role": "user", "content": [{"type": "image"}]}]}
        assert await post_for_error(gateway, path, body) == (
            400,
            "invalid_request_error",
            "messages[0].content[0] has the type image, and the model takes only text.",
        )
    assert (server.calls, server.unary_request) == ([], None)


async def test_an_error_after_the_start_is_the_last_event(gateway, server):
    """An answer that breaks off says so in the stream, and does not look finished."""

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield DIED

    server.script = script
    async with gateway.post(PATH, BODY | {"stream": True}) as response:
        *events, last = events_of(await response.text())
    assert response.status == 200
    assert events[-1]["delta"] == {"type": "text_delta", "text": "Hel"}
    assert last == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "The engine has died."},
        "request_id": response.headers["request-id"],
    }


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_without_an_end_is_an_error(gateway, server, stream):
    """A server that ends a call well without finishing the answer is not believed."""

    def script(request):
        yield Admit()
        yield piece("Hel")

    server.script = script
    async with gateway.post(PATH, BODY | {"stream": stream}) as response:
        body = events_of(await response.text())[-1] if stream else await response.json()
    assert body["error"]["message"] == "The server did not finish its answer."
    assert response.status == (200 if stream else 500)


async def test_a_silent_stream_is_kept_alive(start_gateway, server):
    """While nothing is said, pings come."""
    gateway = await start_gateway(keep_alive_interval_seconds=0.02)
    hold = Hold()

    def script(request):
        yield Admit()
        yield hold
        yield pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5))
        yield end("Hi")

    server.script = script
    async with gateway.post(PATH, BODY | {"stream": True}) as response:
        ping = b'event: ping\ndata: {"type":"ping"}\n\n'
        assert await response.content.readuntil(b"\n\n") == ping
        assert await response.content.readuntil(b"\n\n") == ping
        hold.over.set()
        rest = events_of((await response.content.read()).decode())
    assert rest[-1] == {"type": "message_stop"}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_caller_who_leaves_cancels_the_call(gateway, server, access_log, stream):
    """The engine does not go on for nobody, blocking and streaming."""
    hold = Hold()

    def script(request):
        yield Admit()
        yield piece("Hel")
        yield hold

    server.script = script
    _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    data = json.dumps(BODY | {"stream": stream}).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    assert await asyncio.to_thread(hold.reached.wait, BOUND_SECONDS)
    writer.close()
    assert await asyncio.to_thread(server.calls[0].wait_until_cancelled)
    assert (await access_log.next_line())["status"] == 499
