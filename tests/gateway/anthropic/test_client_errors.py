"""What Anthropic's library makes of failures of the server."""

import anthropic
import grpc
import pytest

from tests.client.scripted_server import Admit, Refusal, hello, piece

ASKED = {
    "model": "small",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Hi"}],
}
FULL = Refusal(
    grpc.StatusCode.RESOURCE_EXHAUSTED, "The queue is full.", "OVERLOADED", retry_after_seconds=0.01
)
DRAINING = Refusal(grpc.StatusCode.UNAVAILABLE, "The server is about to stop.", "DRAINING")
LATE = Refusal(grpc.StatusCode.DEADLINE_EXCEEDED, "It is late.", "QUEUE_TIMEOUT")
FAULT = Refusal(grpc.StatusCode.INTERNAL, "A fault.", "INTERNAL")
LOCKED = Refusal(grpc.StatusCode.UNAUTHENTICATED, "")


def open_client(gateway, max_retries=0):
    return anthropic.AsyncAnthropic(
        base_url=gateway.url(""), api_key="unused", max_retries=max_retries
    )


async def read(stream, said):
    async for text in stream.text_stream:
        said.append(text)


@pytest.mark.parametrize(
    ("refusal", "error", "kind"),
    [
        (LOCKED, anthropic.AuthenticationError, "authentication_error"),
        (FULL, anthropic.RateLimitError, "rate_limit_error"),
        (FAULT, anthropic.InternalServerError, "api_error"),
        (LATE, anthropic.GatewayTimeoutError, "timeout_error"),
        (DRAINING, anthropic.OverloadedError, "overloaded_error"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_each_failure_has_its_exception(gateway, server, refusal, error, kind, stream):
    """Before an answer begins, users of the library catch what they know."""
    server.script = lambda request: iter([refusal])
    async with open_client(gateway) as client:
        with pytest.raises(error) as raised:
            await client.messages.create(**ASKED, stream=stream)
    assert raised.value.type == kind
    assert raised.value.request_id


async def test_a_failure_within_a_stream_is_raised(gateway, server):
    """A stream that breaks off is not taken for a whole answer."""
    server.script = lambda request: iter([Admit(), piece("Hel"), DRAINING])
    said = []
    async with open_client(gateway) as client, client.messages.stream(**ASKED) as stream:
        with pytest.raises(anthropic.APIStatusError) as raised:
            await read(stream, said)
    assert (said, raised.value.type) == (["Hel"], "overloaded_error")


@pytest.mark.parametrize("refusal", [FULL, DRAINING])
async def test_the_library_tries_again(gateway, server, refusal):
    """What is refused before it began can be sent again, which the library does by itself."""
    refusals = [refusal]

    def script(request):
        yield from [refusals.pop()] if refusals else hello(request)

    server.script = script
    async with open_client(gateway, max_retries=1) as client:
        answer = await client.messages.create(**ASKED)
    assert answer.content[0].text == "Hello 🌍"
    assert len(server.calls) == 2
