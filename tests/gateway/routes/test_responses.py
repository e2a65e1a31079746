"""Responses over HTTP, in front of a scripted server."""

import json

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.stopping_pb2 import FINISH_REASON_MAX_OUTPUT_TOKENS
from tests.client.scripted_server import Admit, Refusal, a_model, end, piece

PATH = "/v1/responses"
BODY = {"input": "Hi"}


def named_events(text):
    """Return the events of a stream, whose names are those of their data."""
    events = []
    for block in text.split("\n\n"):
        if block and not block.startswith(":"):
            name, data = block.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {events[-1]['type']}"
    return events


@pytest.mark.parametrize("path", [PATH, "/responses"])
async def test_a_whole_response(gateway, server, path):
    """A blocking request is answered in one piece, which the server was asked for."""
    async with gateway.post(path, BODY | {"model": "small"}) as response:
        body = await response.json()
    assert response.status == 200
    assert body["id"].startswith("resp_")
    assert (body["object"], body["model"], body["status"]) == ("response", "small", "completed")
    [message] = body["output"]
    assert message["id"].startswith("msg_")
    assert message["content"][0]["text"] == "Hello 🌍"
    assert body["usage"]["total_tokens"] == 8
    [call] = server.calls
    assert (call.request.model, call.request.output.chunking.whole) == ("small", True)


async def test_a_stream(gateway, server):
    """Named events from created to completed, of one id, and no [DONE]."""
    server.models = [a_model("tiny")]
    async with gateway.post(PATH, BODY | {"stream": True}) as response:
        events = named_events(await response.text())
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["response"]["model"] == "tiny"
    assert events[-1]["type"] == "response.completed"
    deltas = [event["delta"] for event in events if "delta" in event]
    assert deltas == ["Hel", "lo 🌍"]
    assert events[-1]["response"]["usage"]["output_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_is_an_item_and_counted(gateway, server, stream):
    """Its tokens are those that the server has counted."""

    def script(request):
        yield Admit()
        yield pb.GenerateResponse(deltas=[pb.CandidateDelta(reasoning_text="hm")])
        last = end("Hi")
        last.usage.reasoning_token_count = 2
        yield last

    server.script = script
    async with gateway.post(PATH, BODY | {"stream": stream}) as response:
        text = await response.text()
    body = named_events(text)[-1]["response"] if stream else json.loads(text)
    assert [item["type"] for item in body["output"]] == ["reasoning", "message"]
    assert body["output"][0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert body["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}


async def test_an_upper_bound_beyond_the_context_is_no_error(gateway, server):
    """The server fills the room of the context when the bound does not fit into it."""

    def script(request):
        if request.stopping.HasField("max_output_tokens"):
            yield Refusal(
                grpc.StatusCode.INVALID_ARGUMENT,
                "stopping.max_output_tokens is too much.",
                "CONTEXT_LENGTH_EXCEEDED",
                "stopping.max_output_tokens",
            )
        yield Admit()
        yield end("Hi", reason=FINISH_REASON_MAX_OUTPUT_TOKENS)

    server.script = script
    async with gateway.post(PATH, BODY | {"max_output_tokens": 9000}) as response:
        body = await response.json()
    assert (body["status"], body["max_output_tokens"]) == ("incomplete", 9000)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_names_the_item(gateway, server, stream):
    """With the words of the server and the names of this API, in streams, too."""

    def script(request):
        yield Refusal(
            grpc.StatusCode.INVALID_ARGUMENT,
            "chat.messages[1].content must not be so.",
            "INVALID_FIELD",
            "chat.messages[1].content",
        )

    server.script = script
    body = BODY | {"instructions": "a", "input": [{"role": "user", "content": "b"}]}
    status, error = await gateway.post_for_error(PATH, body | {"stream": stream})
    assert status == 400
    assert error == {
        "message": "input[0].content must not be so.",
        "type": "invalid_request_error",
        "param": "input",
        "code": None,
    }


async def test_an_error_in_a_stream_is_its_end(gateway, server):
    """What there was is told once more, as failed."""

    def script(request):
        yield Admit()
        yield pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5))
        yield piece("Hel", 1)
        yield Refusal(grpc.StatusCode.UNAVAILABLE, "The engine was lost.", "ENGINE_UNAVAILABLE")

    server.script = script
    async with gateway.post(PATH, BODY | {"stream": True}) as response:
        assert response.status == 200
        *_, error, failed = named_events(await response.text())
    assert (error["type"], error["code"]) == ("error", "engine_unavailable")
    assert error["message"] == "The engine was lost."
    assert failed["type"] == "response.failed"
    assert failed["response"]["output"][0]["content"][0]["text"] == "Hel"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("path", [PATH, "/responses"])
async def test_nothing_is_stored(gateway, server, method, path):
    """There is no response to be had later, and the refusal says so."""
    async with gateway.request(method, f"{path}/resp_1") as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"], error["param"]) == (404, "not_found", "id")
    assert "not stored" in error["message"]
    assert server.calls == []
